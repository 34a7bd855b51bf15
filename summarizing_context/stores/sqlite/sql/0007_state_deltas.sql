-- Activation states of checkpoints are kept as what they differ in from the session's state before.

alter table checkpoint_states add column base integer; -- the state that this one is packed against; null: none
alter table checkpoint_states add column depth integer not null default 0; -- at least as many states it builds on
create index checkpoint_states_by_base on checkpoint_states (base) where base is not null;

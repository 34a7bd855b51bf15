-- Activations of sessions: what each of them was, and, for the newest, the provider's state before it, packed. The store
-- looks into neither.
create table activation_history (
    session_id text not null,
    number integer not null, -- counts up within a session
    provider_key text not null,
    log_version integer not null, -- how often the log was replaced before it
    figures text not null,
    before blob, -- null: nothing of it is taken back, or not any longer
    undone integer not null default 0, -- 1: a later activation has taken it back
    primary key (session_id, number)
);

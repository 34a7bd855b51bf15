-- Checkpoints: named states of a session.
--
-- A checkpoint is a head (branch, stop) that is kept, with what each provider was shown then. Equal activation
-- states are kept once, packed, so that a checkpoint costs little more than its row.

alter table sessions add column log_version integer not null default 0; -- how often the log was replaced

create table checkpoints (
    id integer primary key autoincrement, -- of a removed one is never used again
    session_id text not null,
    name text,
    branch integer not null,
    stop integer not null,
    showings text not null, -- JSON: a list of [provider key, state id, marks], the newest last
    created_at text not null
);
create index checkpoints_by_session on checkpoints (session_id);

create table checkpoint_states (
    id integer primary key,
    digest blob not null unique,
    state blob not null -- packed
);

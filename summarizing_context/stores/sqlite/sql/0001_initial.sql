-- The first schema.
--
-- A log is kept apart from the head that lists it. Entries lie on branches; a branch leaves its parent at
-- `parent_stop`, so the log of a head (branch, stop) is the parent's first `parent_stop` entries followed by the
-- branch's own up to `stop`. Positions count from the beginning of the log, not of the branch. Forking, restoring
-- and undoing therefore move or make a head and copy nothing.

create table branches (
    id integer primary key,
    session_id text, -- that began it, so that what `replace` left behind is found; null: deleted, but others need it
    parent integer,
    parent_stop integer not null default 0
);
create index branches_by_session on branches (session_id);

create table entries (
    branch integer not null,
    position integer not null,
    message blob not null,
    facts blob not null,
    primary key (branch, position)
);

create table sessions (
    session_id text primary key,
    project text,
    branch integer not null,
    stop integer not null,
    created_at text not null,
    updated_at text not null,
    writer_pid integer -- a name for messages only; the lock file is what counts
);

create table activations (
    session_id text not null,
    provider_key text not null,
    state blob not null,
    saved integer not null, -- counts up within a session: the highest is the newest
    primary key (session_id, provider_key)
);

create table summaries (
    range_hash text not null,
    recipe_hash text not null,
    text blob not null, -- UTF-8, in which lone surrogates are let through
    rank integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    primary key (range_hash, recipe_hash)
);

create table summary_uses (
    session_id text not null,
    range_hash text not null,
    recipe_hash text not null,
    stale integer not null default 0, -- 1: noted for a log that was replaced since; `purge` forgets it
    primary key (session_id, range_hash, recipe_hash)
) without rowid;
create index summary_uses_by_summary on summary_uses (range_hash, recipe_hash);

-- The schema. `store.` stands for the schema that the address names.
--
-- Logs, branches, checkpoints and summaries are as in the SQLite store. What differs: writers are rows that expire,
-- and each session has a fence that grows with each new writer; the words of the search index are kept in a table,
-- written with what they are of.

create table store.version (number bigint not null);

-- As SQLite has them, for the queries that the stores share.
create function store.json_each(list text) returns table (value text) language sql immutable as
    'select json_array_elements_text(list::json)';
create function store.json_extract(value text, path text) returns text language sql immutable as
    $$ select value::json #>> array[btrim(path, '$.[]')] $$;

create table store.writers (
    id text primary key, -- of one process and event loop
    host text not null,
    pid bigint not null,
    until timestamptz not null, -- its lease; other writers may take its sessions afterwards
    batch bigint not null default 0 -- the newest committed transaction, for a commit whose answer was lost
) with (fillfactor = 50);

create table store.branches (
    id bigint generated always as identity primary key,
    session_id text, -- that began it; null: deleted, but others need it
    parent bigint,
    parent_stop bigint not null default 0
);
create index branches_by_session on store.branches (session_id);
create index branches_by_parent on store.branches (parent) where parent is not null;

create table store.entries (
    branch bigint not null,
    position bigint not null,
    message bytea not null,
    facts bytea not null,
    primary key (branch, position)
);

create table store.sessions (
    session_id text primary key,
    project text,
    branch bigint not null,
    stop bigint not null,
    created_at text not null,
    updated_at text not null,
    log_version bigint not null default 0,
    pins text not null default '',
    budget bigint, -- tokens that the last request could use
    failed bigint not null default 0, -- summaries that were given up
    last_error text,
    last_error_at text,
    title text, -- the beginning of what its person wrote first
    writer text, -- the row of `writers` that has it, or had it
    fence bigint not null default 0 -- one more for each writer: an older writer's transactions fail
) with (fillfactor = 70);
create index sessions_by_project on store.sessions (project) where project is not null;
create index sessions_by_writer on store.sessions (writer) where writer is not null;

create table store.activations (
    session_id text not null,
    provider_key text not null,
    state bytea not null,
    saved bigint not null, -- counts up within a session: the highest is the newest
    primary key (session_id, provider_key)
);

create table store.activation_history (
    session_id text not null,
    number bigint not null, -- counts up within a session
    provider_key text not null,
    log_version bigint not null, -- how often the log was replaced before it
    figures text not null,
    before bytea, -- null: nothing of it is taken back, or not any longer
    undone integer not null default 0, -- 1: a later activation has taken it back
    primary key (session_id, number)
);

create table store.summaries (
    id bigint generated always as identity primary key,
    range_hash text not null,
    recipe_hash text not null,
    text bytea not null, -- UTF-8, in which lone surrogates are let through
    rank bigint not null,
    input_tokens bigint not null,
    output_tokens bigint not null,
    unique (range_hash, recipe_hash)
);

create table store.summary_uses (
    session_id text not null,
    range_hash text not null,
    recipe_hash text not null,
    stale boolean not null default false, -- noted for a log that was replaced since; `purge` forgets it
    start bigint,
    stop bigint,
    primary key (session_id, range_hash, recipe_hash)
);
create index summary_uses_by_summary on store.summary_uses (range_hash, recipe_hash);

create table store.checkpoints (
    id bigint generated always as identity primary key,
    session_id text not null,
    name text,
    branch bigint not null,
    stop bigint not null,
    views bytea not null, -- zlib; JSON: a list of [provider key, state, marks], the newest last
    pins text not null default '',
    created_at text not null
);
create index checkpoints_by_session on store.checkpoints (session_id);

create table store.rules (
    session_id text not null,
    digest bytea not null,
    version text not null,
    position bigint not null,
    rules bytea not null,
    primary key (session_id, digest, version)
);

-- Words are stemmed as in the SQLite store; there are no stop words.
create text search dictionary store.stems (template = snowball, language = 'porter');
create text search configuration store.plain (copy = simple);
alter text search configuration store.plain
    alter mapping for asciiword, word, numword, asciihword, hword, numhword, hword_asciipart, hword_part, hword_numpart
    with store.stems;

create table store.words (
    number bigint not null, -- of a message: branch and position; of a summary: its id below zero
    part bigint not null, -- long texts have several
    words tsvector not null,
    primary key (number, part)
);
create index words_by_word on store.words using gin (words);

create table store.memories (
    id bigint generated always as identity primary key,
    project text,
    session_id text, -- that stored it; null once that is deleted
    content text not null,
    metadata text not null, -- JSON
    created_at text not null,
    updated_at text not null
);
create index memories_by_project on store.memories (project, session_id);

create table store.memory_marks (
    mark text not null,
    reader text not null,
    project text,
    session_id text
);
create index memory_marks_by_mark on store.memory_marks (mark, reader);

create table store.vectors (
    owner text not null,
    number bigint not null,
    recipe text not null,
    vector bytea not null, -- 32-bit floats of length 1
    primary key (owner, number, recipe)
);

-- Ends the transaction where a statement did not change what it had to: the writer lost its lease.
create function store.expect(seen bigint, wanted bigint) returns bigint language plpgsql as $$
begin
    if seen is distinct from wanted then
        raise exception 'expected % rows, found %', wanted, seen using errcode = 'SC001';
    end if;
    return seen;
end $$;

-- Who pays for a summary now: one host asks a model for a key, and the others wait for what it gets.

create table store.claims (
    range_hash text not null,
    recipe_hash text not null,
    writer text not null, -- whose lease must hold, or the claim is void
    until timestamptz not null, -- its deadline
    primary key (range_hash, recipe_hash)
);

-- Requests for summaries that workers of a pool make.

create table store.requests (
    range_hash text not null,
    recipe_hash text not null,
    session_id text not null, -- that asked first
    queue text not null, -- the recipe of the model whose workers make it
    request bytea not null, -- what is asked of a model, redacted
    others text[] not null default '{}', -- that asked too, in order, so that deleting one leaves it to them
    error text, -- why the last attempt failed; who asked decides whether to ask again
    failures bigint not null default 0, -- since somebody asked last
    retry_at timestamptz, -- null: it waits, or is not tried again unless a host asks
    asked_at timestamptz not null default clock_timestamp(),
    primary key (range_hash, recipe_hash)
);
create index requests_by_session on store.requests (session_id);
create index requests_by_queue on store.requests (queue, asked_at);

-- How much of each branch the heads need; of what only other branches need, `everything` leaves nothing.
create function store.needed(everything boolean) returns table (branch bigint, stop bigint) language sql stable as $$
    with recursive needed (branch, stop) as (
        select * from (
            select branch, stop from store.sessions
            union
            select branch, stop from store.checkpoints
            union
            select parent, parent_stop from store.branches
            where session_id is not null and parent is not null and not everything
        ) as heads
        union
        select branches.parent, least(branches.parent_stop, needed.stop)
        from needed join store.branches on branches.id = needed.branch where branches.parent is not null
    )
    select branch, stop from needed
$$;

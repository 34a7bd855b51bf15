-- The schema that all databases share. `store.` stands for the schema of the database.
--
-- A log is kept apart from the head that lists it. Entries lie on branches, each at its position in the log. The log of a
-- head is what older branches hold `below`, a JSON list of [branch, where it is left], oldest first, and then what its
-- own branch holds up to `stop`. Forking, restoring and undoing therefore move or make a head and copy nothing; the next
-- entry begins a branch, so that only one session adds to it.

create table store.branches (
    id bigint generated always as identity primary key,
    session_id text -- that began it; null: it was deleted, and what no other needs goes
);

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
    branch bigint not null, -- its own; 0: the next entry begins one
    stop bigint not null,
    below text not null,
    created_at text not null,
    updated_at text not null,
    writer text, -- that has it, or had it
    fence bigint not null default 0, -- one more for each writer: an older one's transactions fail
    log_version bigint not null default 0, -- how often the log was replaced
    pins text not null default '', -- what was pinned by calls; the store does not look into it
    budget bigint, -- tokens that the last request could use, so that a look at the session need not be told
    fixed_tokens bigint not null default 0, -- of these, its system prompt and tools
    failed bigint not null default 0, -- summaries that were given up
    last_error text,
    last_error_at text,
    title text -- the beginning of what its person wrote first
);

create table store.activations (
    session_id text not null,
    provider_key text not null,
    state bytea not null,
    saved bigint not null, -- counts up within a session: the highest is the newest
    primary key (session_id, provider_key)
);

-- What each activation was, and, for the newest, the provider's state before it, packed. The store looks into neither.
create table store.activation_history (
    session_id text not null,
    number bigint not null, -- counts up within a session
    provider_key text not null,
    log_version bigint not null, -- how often the log was replaced before it
    figures text not null,
    before bytea, -- null: nothing of it is taken back, or not any longer
    undone boolean not null default false, -- a later activation has taken it back
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
    start bigint, -- the messages for which it stands, as far as they are known
    stop bigint,
    primary key (session_id, range_hash, recipe_hash)
);
create index summary_uses_by_summary on store.summary_uses (range_hash, recipe_hash);

-- A checkpoint is a head without a branch of its own that is kept, with what each provider was shown then.
create table store.checkpoints (
    id bigint generated always as identity primary key, -- of a removed one is never used again
    session_id text not null,
    name text,
    stop bigint not null,
    below text not null,
    states bytea not null, -- zlib, msgpack: a list of [provider key, state], the newest last
    pins text not null default '',
    created_at text not null
);
create index checkpoints_by_session on store.checkpoints (session_id);

-- What sessions of a project keep for later ones. Memories of a session without a project are its own.
create table store.memories (
    id bigint generated always as identity primary key, -- of a forgotten one is never used again
    scope text not null, -- whose it is: `project` or `session`, and its name
    content text not null,
    metadata text not null, -- JSON
    created_at text not null,
    updated_at text not null
);
create index memories_by_scope on store.memories (scope);

-- What of the logs was read for memories, so that nothing is read twice and what was forgotten stays so.
create table store.memory_marks (
    mark text not null, -- names the content that was read
    reader text not null, -- a model, or rules
    scope text not null, -- as of memories
    primary key (mark, reader, scope)
);

-- Vectors of memories, for searching by meaning.
create table store.vectors (
    id bigint not null, -- of the memory
    recipe text not null, -- how it was made: vectors of different ones cannot be compared
    vector bytea not null, -- 32-bit floats of length 1
    primary key (id, recipe)
);

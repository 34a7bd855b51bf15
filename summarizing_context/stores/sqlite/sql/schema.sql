-- The schema.
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
    writer_pid integer, -- a name for messages only; the lock file is what counts
    log_version integer not null default 0, -- how often the log was replaced
    pins text not null default '', -- what was pinned by calls; the store does not look into it
    budget integer, -- tokens that the last request could use, so that a look at the session need not be told
    failed integer not null default 0, -- summaries that were given up
    last_error text,
    last_error_at text,
    title text -- the beginning of what its person wrote first
);

create table activations (
    session_id text not null,
    provider_key text not null,
    state blob not null,
    saved integer not null, -- counts up within a session: the highest is the newest
    primary key (session_id, provider_key)
);

-- What each activation was, and, for the newest, the provider's state before it, packed. The store looks into neither.
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

create table summaries (
    id integer primary key autoincrement,
    range_hash text not null,
    recipe_hash text not null,
    text blob not null, -- UTF-8, in which lone surrogates are let through
    rank integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    unique (range_hash, recipe_hash)
);

create table summary_uses (
    session_id text not null,
    range_hash text not null,
    recipe_hash text not null,
    stale integer not null default 0, -- 1: noted for a log that was replaced since; `purge` forgets it
    start integer, -- the messages for which it stands, as far as they are known
    stop integer,
    primary key (session_id, range_hash, recipe_hash)
) without rowid;
create index summary_uses_by_summary on summary_uses (range_hash, recipe_hash);

-- A checkpoint is a head (branch, stop) that is kept, with what each provider was shown then.
create table checkpoints (
    id integer primary key autoincrement, -- of a removed one is never used again
    session_id text not null,
    name text,
    branch integer not null,
    stop integer not null,
    views blob not null, -- zlib; JSON: a list of [provider key, state, marks], the newest last
    pins text not null default '',
    created_at text not null
);
create index checkpoints_by_session on checkpoints (session_id);

-- What was read of each message that a human wrote, kept beside the log. The store does not look into it. A message
-- without a row of the version that a process reads by is read again when its session is opened.
create table rules (
    session_id text not null,
    digest blob not null, -- names a message by its bytes
    version text not null, -- of how its rules were read
    position integer not null, -- of the first such message in the log
    rules blob not null,
    primary key (session_id, digest, version)
) without rowid;

-- The index keeps words, not texts, and is written with what it indexes. A message's row is numbered by its branch and
-- position, a summary's by its id below zero. Letters of scripts without spaces between words are indexed one by one.
create virtual table search using fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
insert into search (search, rank) values ('automerge', 8); -- parts; an append that merges fewer takes a fifth longer

-- What sessions of a project keep for later ones. Memories of a session without a project are its own.
create table memories (
    id integer primary key autoincrement, -- of a forgotten one is never used again
    project text,
    session_id text, -- that stored it; null once that is deleted
    content text not null,
    metadata text not null, -- JSON
    created_at text not null,
    updated_at text not null
);
create index memories_by_project on memories (project, session_id);

-- What of the logs was read for memories, so that nothing is read twice and what was forgotten stays so.
-- In scope as memories are: by project, or, where there is none, by session.
create table memory_marks (
    mark text not null, -- names the content that was read
    reader text not null, -- a model, or rules
    project text,
    session_id text -- that read it; null once that is deleted
);
create index memory_marks_by_mark on memory_marks (mark, reader);

-- Vectors of texts, for searching by meaning. `owner` is memory.
create table vectors (
    owner text not null,
    number integer not null,
    recipe text not null, -- how it was made: vectors of different ones cannot be compared
    vector blob not null, -- 32-bit floats of length 1
    primary key (owner, number, recipe)
) without rowid;

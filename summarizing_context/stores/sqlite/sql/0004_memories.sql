-- Memories: what sessions of a project keep for later ones. Those of a session without a project are its own.

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
create virtual table memory_words using fts5(
    content, content='memories', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);

-- Vectors of texts, for searching by meaning. `owner` is memory, or row (of the index of messages and summaries).
create table vectors (
    owner text not null,
    number integer not null,
    recipe text not null, -- how it was made: vectors of different ones cannot be compared
    vector blob not null, -- 32-bit floats of length 1
    primary key (owner, number, recipe)
) without rowid;

-- What PostgreSQL has beside the tables that all databases share: writers are rows that expire, and the words of the
-- search index are kept in a table, written with what they are of.

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
create function store.lives(writer text) returns boolean language sql as
    $$ select exists (select 1 from store.writers where id = writer and until > clock_timestamp()) $$;

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
    session_id text not null, -- that asked first; others ask again where it is deleted
    queue text not null, -- the recipe of the model whose workers make it
    request bytea not null, -- what is asked of a model, redacted
    error text, -- why the last attempt failed; who asked decides whether to ask again
    failures bigint not null default 0, -- since a host asked last
    retry_at timestamptz, -- null: it waits, or is not tried again unless a host asks
    asked_at timestamptz not null default clock_timestamp(),
    primary key (range_hash, recipe_hash)
);
create index requests_by_session on store.requests (session_id);
create index requests_by_queue on store.requests (queue, asked_at);

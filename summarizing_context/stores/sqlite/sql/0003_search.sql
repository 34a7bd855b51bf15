-- Searching by words: one index of messages and summaries, filled behind the log.
--
-- The index keeps words, not texts. A message's row is numbered by its branch and position, a summary's by its id
-- below zero. What is not indexed yet is found by `branches.indexed` and `search_progress`; the store catches up
-- when it has nothing else to do, so that opening an older file and appending cost nothing.

create virtual table search using fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');

alter table branches add column indexed integer not null default 0; -- entries before this position are indexed

create table search_progress (
    summaries integer not null -- summaries up to this id are indexed
);
insert into search_progress (summaries) values (0);

-- Rows that are renumbered when the file is written anew cannot be indexed by their number: summaries get an id.
create table numbered_summaries (
    id integer primary key autoincrement,
    range_hash text not null,
    recipe_hash text not null,
    text blob not null, -- UTF-8, in which lone surrogates are let through
    rank integer not null,
    input_tokens integer not null,
    output_tokens integer not null,
    unique (range_hash, recipe_hash)
);
insert into numbered_summaries (range_hash, recipe_hash, text, rank, input_tokens, output_tokens)
select range_hash, recipe_hash, text, rank, input_tokens, output_tokens from summaries;
drop table summaries;
alter table numbered_summaries rename to summaries;

-- Which messages a session's summary stands for; null where it was noted by an older version.
alter table summary_uses add column start integer;
alter table summary_uses add column stop integer;

-- What SQLite has beside the tables that all databases share.

-- A writer is named by its process; the lock file of its name says whether it lives.
create view writers as
select distinct writer as id, cast(writer as integer) as pid, null as host from sessions where writer is not null;

-- The index keeps words, not texts, and is written with what it indexes. A message's row is numbered by its branch and
-- position, a summary's by its id below zero. Letters of scripts without spaces between words are indexed one by one.
create virtual table search using fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
insert into search (search, rank) values ('automerge', 8); -- parts; an append that merges fewer takes a fifth longer

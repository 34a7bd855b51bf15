-- The queries about searching, each under its name and purpose.
-- `indexed` and `spaced` are functions of the connection: the words of a message, or of a text, as they are indexed.

-- index_text: one row
insert into search (rowid, text) values (?, ?);

-- unindex_entries: of a branch, from a position on; before they are removed
insert into search (search, rowid, text)
select 'delete', (branch << 32) + position, indexed(message) from entries
where branch = :branch and position >= :stop;

-- unindex_summaries: those of the ids, a JSON list, before they are removed
insert into search (search, rowid, text)
select 'delete', -id, spaced(text) from summaries where id in (select value from json_each(:ids));

-- merge_search: so many pages of it; fewer than none: of all its parts
insert into search (search, rank) values ('merge', :pages);

-- count_matches: how many rows match, counted up to `most`
select count(*) from (select 1 from search where search match :match limit :most);

-- best_matches: rows of one run that match, by relevance; of equals the newest message, then the newest summary
select rowid, -bm25(search) from search where search match :match and rowid between :first and :last
order by bm25(search), rowid > 0 desc, abs(rowid) desc;

-- newest_matches: rows of one run that match, the newest first; as relevant as common words are
select rowid, 1e-6 from search where search match :match and rowid between :first and :last order by rowid desc;

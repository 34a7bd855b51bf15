-- The queries of SQLite alone, each under its name and purpose.

-- guard: no other host does this until the transaction ends; in SQLite it is the only one that writes
select 1;

-- index_text: one row
insert into search (rowid, text) values (?, ?);

-- unindex_text: one row, of this text
insert into search (search, rowid, text) values ('delete', ?, ?);

-- count_entries: all, and those of some logs, a JSON list of branches with the positions from which on
select (select count(*) from entries), count(*) from json_each(:logs) as log
cross join entries on branch = json_extract(log.value, '$[0]') and position >= json_extract(log.value, '$[1]');

-- indexed: all rows, by their numbers
select -id, text from summaries union all select (branch << 32) + position, message from entries;

-- merge_search: so many pages of it; fewer than none: of all its parts
insert into search (search, rank) values ('merge', :pages);

-- search_pages: of the index
select count(*) from search_data;

-- count_matches: how many rows match, counted up to `most`
select count(*) from (select 1 from search where search match :match limit :most);

-- best_matches: rows of one run that match, by relevance; of equals the newest message, then the newest summary
select rowid, -bm25(search) from search where search match :match and rowid between :first and :last
order by bm25(search), rowid > 0 desc, abs(rowid) desc;

-- newest_matches: rows of one run that match, the newest first; as relevant as common words are
select rowid, 1e-6 from search where search match :match and rowid between :first and :last order by rowid desc;

-- The queries about searching, each under its name and purpose.
-- `indexed` and `spaced` are functions of the connection: the words of a message, or of a text, as they are indexed.

-- backlog: entries and summaries that are not indexed yet
select
    (select count(*) from branches join entries on entries.branch = branches.id
        and entries.position >= max(branches.indexed, branches.parent_stop))
    + (select count(*) from summaries where id > (select summaries from search_progress));

-- branch_behind: a branch with entries that are not indexed, and the first of them
select id, max(indexed, parent_stop) from branches
where exists (select 1 from entries where branch = branches.id and position >= max(indexed, parent_stop)) limit 1;

-- indexed_of: how far a branch is indexed
select max(indexed, parent_stop) from branches where id = :branch;

-- indexed_summaries: how far they are
select summaries from search_progress;

-- last_summary_behind: the last one that is not indexed, or 0
select coalesce(max(id), 0) from summaries where id > (select summaries from search_progress);

-- summaries_behind: those that are not indexed, numbered as in the index
select -id, text from summaries where id > (select summaries from search_progress);

-- how_indexed: the statement that made the index
select sql from sqlite_master where name = 'search';

-- index_text: one row
insert into search (rowid, text) values (?, ?);

-- next_entries: positions and sizes, from a position on
select position, length(message) from entries where branch = ? and position >= ? order by position limit ?;

-- index_entries: some of a branch
insert into search (rowid, text)
select (branch << 32) + position, indexed(message) from entries
where branch = :branch and position >= :start and position < :stop;

-- index_summaries: the next ones
insert into search (rowid, text)
select -id, spaced(text) from summaries
where id > (select summaries from search_progress) and id <= :stop;

-- next_summaries: how many of the next `count` summaries there are, and the last
select count(*), max(id) from (
    select id from summaries where id > (select summaries from search_progress) order by id limit :count
);

-- note_indexed_summaries: how far they are indexed
update search_progress set summaries = :stop;

-- unindex_entries: of a branch, from a position on; before they are removed
insert into search (search, rowid, text)
select 'delete', (branch << 32) + position, indexed(message) from entries
where branch = :branch and position >= :stop and position < (select indexed from branches where id = :branch);

-- note_unindexed: a branch is indexed up to here at most
update branches set indexed = min(indexed, :stop) where id = :branch;

-- unindex_summaries: those of the ids, a JSON list
insert into search (search, rowid, text)
select 'delete', -id, spaced(text) from summaries
where id <= (select summaries from search_progress) and id in (select value from json_each(:ids));

-- unindex_unused_summaries: those that `remove_unused_summaries` will remove
insert into search (search, rowid, text)
select 'delete', -id, spaced(text) from summaries
where id <= (select summaries from search_progress) and not exists (
    select 1 from summary_uses as uses
    where uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
);

-- merge_search: so many pages of it; fewer than none: of all its parts
insert into search (search, rank) values ('merge', :pages);

-- tidy_index: merge its parts, so that words of what was removed are in none of them
insert into search (search) values ('optimize');

-- count_matches: how many rows match, counted up to `most`
select count(*) from (select 1 from search where search match :match limit :most);

-- best_matches: rows by relevance, the best first; of equals the newest message, then the newest summary
select rowid, -bm25(search) from search where search match :match
order by bm25(search), rowid > 0 desc, abs(rowid) desc;

-- newest_matches: rows of one run that match, the newest first
select rowid from search where search match :match and rowid between :first and :last order by rowid desc;

-- best_matches_within: of one run of rows
select rowid, -bm25(search) from search where search match :match and rowid between :first and :last
order by bm25(search), rowid desc;

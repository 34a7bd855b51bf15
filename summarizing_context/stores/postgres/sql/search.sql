-- The queries about searching, by words and by vectors, each under its name and purpose. `pgvector.` stands for the
-- schema of that extension.

-- backlog: entries and summaries that are not indexed yet
select
    (select count(*) from store.branches join store.entries on entries.branch = branches.id
        and entries.position >= greatest(branches.indexed, branches.parent_stop))
    + (select count(*) from store.summaries where not indexed);

-- branch_behind: a branch with entries that are not indexed, and the first of them; another process may have others
select id, greatest(indexed, parent_stop) from store.branches
where exists (select 1 from store.entries where branch = branches.id and position >= greatest(indexed, parent_stop))
limit 1 for update skip locked;

-- own_branch_behind: the same among some branches
select id, greatest(indexed, parent_stop) from store.branches where id = any(:branches)
and exists (select 1 from store.entries where branch = branches.id and position >= greatest(indexed, parent_stop))
limit 1 for update skip locked;

-- indexed_of: how far a branch is indexed; nobody else indexes it until the transaction ends
select greatest(indexed, parent_stop) from store.branches where id = :branch for update;

-- indexed_now: how far a branch is indexed
select greatest(indexed, parent_stop) from store.branches where id = :branch;

-- last_summary_behind: the last one that is not indexed, or 0
select coalesce(max(id), 0) from store.summaries where not indexed;

-- some_entries_behind: as many
select position, message from store.entries where branch = :branch and position >= :start order by position limit :most;

-- summaries_behind: those that are not indexed, numbered as in the index
select -id, text from store.summaries where not indexed;

-- some_summaries_behind: as many, which nobody else indexes until the transaction ends
select id, text from store.summaries where not indexed and id <= :last order by id limit :most for update skip locked;

-- add_words: of texts, by parts; the sums of what is indexed become one row, without those that others are changing
with added as (
    insert into store.words (number, part, size, words)
    select number, part, size, to_tsvector('store.plain', text) from unnest(
        cast(:number as bigint[]), cast(:part as bigint[]), cast(:size as bigint[]), cast(:text as text[])
    ) as given (number, part, size, text)
    on conflict (number, part) do nothing returning part, size
), former as (
    delete from store.word_totals where id = any(array(select id from store.word_totals for update skip locked))
    returning texts, words
)
insert into store.word_totals (texts, words)
select coalesce(sum(texts), 0), coalesce(sum(words), 0) from (
    select texts, words from former union all select 1, size from added where part = 0
) as counted;

-- note_indexed_summaries: those of the array
update store.summaries set indexed = true where id = any(:ids);

-- word_totals: how many texts are indexed, and their words
select cast(coalesce(sum(texts), 0) as bigint), cast(coalesce(sum(words), 0) as bigint) from store.word_totals;

-- lexemes: of each term, in their order
select array(
    select lexeme from unnest(to_tsvector('store.plain', term)) as held (lexeme, positions, weights),
    unnest(positions) as place order by place
) from unnest(cast(:terms as text[])) with ordinality as given (term, at) order by at;

-- count_matches: how many texts match, counted up to `most`
select count(distinct number) from (
    select number from store.words where words @@ websearch_to_tsquery('store.plain', :match) limit :most
) as counted;

-- matches: rows that match, with the words of their texts, and where they hold the lexemes
select number, size, cast(ts_filter(setweight(words, 'A', cast(:lexemes as text[])), '{a}') as text)
from store.words where words @@ websearch_to_tsquery('store.plain', :match);

-- matches_within: of one run of rows
select number, size, cast(ts_filter(setweight(words, 'A', cast(:lexemes as text[])), '{a}') as text)
from store.words where number between :first and :last and words @@ websearch_to_tsquery('store.plain', :match);

-- matches_among: the same of texts that are not indexed
select number, size, cast(ts_filter(setweight(words, 'A', cast(:lexemes as text[])), '{a}') as text)
from (
    select number, size, to_tsvector('store.plain', text)
    from unnest(cast(:number as bigint[]), cast(:size as bigint[]), cast(:text as text[])) as given (number, size, text)
) as indexed (number, size, words)
where words @@ websearch_to_tsquery('store.plain', :match);

-- newest_matches: rows of one run that match, the newest first
select number from store.words
where number between :first and :last and words @@ websearch_to_tsquery('store.plain', :match)
order by number desc limit :most;

-- save_meaning: keep a vector, for pgvector too; an older one of the same text is replaced
insert into store.vectors (owner, number, recipe, vector, meaning)
values (:owner, :number, :recipe, :vector, cast(:meaning as pgvector.vector))
on conflict (owner, number, recipe) do update set vector = excluded.vector, meaning = excluded.meaning;

-- near_meanings: those of the numbers, a JSON list, and of the query's length, with the cosine of each; all have length 1
select number, -(meaning operator(pgvector.<#>) cast(:query as pgvector.vector)) from store.vectors
where owner = :owner and recipe = :recipe
and number in (select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) as asked)
and octet_length(vector) = :size and 4 * pgvector.vector_dims(meaning) = :size;

-- vectors_without_meaning: those of the numbers, a JSON list, that pgvector does not have
select number, vector from store.vectors where owner = :owner and recipe = :recipe
and number in (select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) as asked)
and 4 * pgvector.vector_dims(meaning) is distinct from octet_length(vector);

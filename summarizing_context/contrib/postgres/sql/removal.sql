-- The queries that remove, each under its name and purpose.

-- lock_trimmed: branches, all or of deleted sessions, with something unneeded; nobody else trims them meanwhile
with cut (branch, stop) as materialized (
    select branches.id, max(needed.stop)
    from store.branches left join store.needed(:everything) as needed on needed.branch = branches.id
    where cast(:everything as boolean) or branches.session_id is null group by branches.id
)
select id from store.branches join cut on cut.branch = branches.id
where cut.stop is null or exists (select 1 from store.entries where branch = id and position >= cut.stop)
order by id for update of branches;

-- trim: from branches what is unneeded in the one state that it sees, with words; the bytes of messages
with cut (branch, stop) as materialized (
    select branches.id, max(needed.stop)
    from store.branches left join store.needed(:everything) as needed on needed.branch = branches.id
    where branches.id = any(cast(:branches as bigint[])) group by branches.id
), garbage as materialized (
    select cut.branch, found.position from cut cross join lateral (
        select position from store.entries where branch = cut.branch and position >= coalesce(cut.stop, 0) offset 0
    ) as found
), gone as (
    delete from store.entries using garbage
    where entries.branch = garbage.branch and entries.position = garbage.position
    returning octet_length(message) + octet_length(facts) as size
), unindexed as (
    delete from store.words using garbage where number = (garbage.branch << 32) + garbage.position
), ended as (
    delete from store.branches using cut where id = cut.branch and cut.stop is null
)
select cast(coalesce(sum(size), 0) as bigint) from gone;

-- remove_own_summaries: those that this session uses and no other, with their words
with gone as (
    delete from store.summaries where exists (
        select 1 from store.summary_uses as uses where uses.session_id = :session_id
        and uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) and not exists (
        select 1 from store.summary_uses as uses where uses.session_id <> :session_id
        and uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) returning id
)
delete from store.words where number in (select -id from gone);

-- remove_unused_summaries: those that no session uses, with their words; the bytes of their texts
with gone as (
    delete from store.summaries where not exists (
        select 1 from store.summary_uses as uses
        where uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) returning id, octet_length(text) as size
), unindexed as (
    delete from store.words where number in (select -id from gone)
)
select cast(coalesce(sum(size), 0) as bigint) from gone;

-- remove_unnamed_vectors: what embeddings without a name left behind when their process was killed; and those of messages,
-- which an earlier version kept
delete from store.vectors where owner <> 'memory' or recipe ~ '^(unnamed |chroma .* unnamed )';

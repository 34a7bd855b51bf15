-- The queries that remove, each under its name and purpose.

-- guard_removal: nobody else writes to a log, makes a head or keeps a checkpoint until the transaction ends
lock table store.sessions, store.checkpoints in share row exclusive mode;

-- disown_branches: their session is about to go
update store.branches set session_id = null where session_id = :session_id;

-- needed_of_disowned: branches of deleted sessions, each with how much of it the others need (null: nothing)
with recursive needed (branch, stop) as (
    select * from (
        select branch, stop from store.sessions
        union
        select branch, stop from store.checkpoints
        union
        select parent, parent_stop from store.branches where session_id is not null and parent is not null
    ) as heads
    union
    select branches.parent, least(branches.parent_stop, needed.stop)
    from needed join store.branches on branches.id = needed.branch where branches.parent is not null
)
select branches.id, max(needed.stop) from store.branches left join needed on needed.branch = branches.id
where branches.session_id is null group by branches.id;

-- needed_by_heads: all branches, each with how much of it the heads of sessions and checkpoints need (null: nothing)
with recursive needed (branch, stop) as (
    select * from (
        select branch, stop from store.sessions
        union
        select branch, stop from store.checkpoints
    ) as heads
    union
    select branches.parent, least(branches.parent_stop, needed.stop)
    from needed join store.branches on branches.id = needed.branch where branches.parent is not null
)
select branches.id, max(needed.stop) from store.branches left join needed on needed.branch = branches.id
group by branches.id;

-- remove_entries: of a branch, from a position on; the bytes of their messages
with gone as (
    delete from store.entries where branch = :branch and position >= :stop
    returning octet_length(message) + octet_length(facts) as size
)
select cast(coalesce(sum(size), 0) as bigint) from gone;

-- remove_entry_words: of a branch, from a position on
with unindexed as (
    delete from store.words
    where number >= (cast(:branch as bigint) << 32) + :stop and number < ((cast(:branch as bigint) + 1) << 32)
    returning part, size
)
insert into store.word_totals (texts, words)
select -count(*), -sum(size) from unindexed where part = 0 having count(*) > 0;

-- note_unindexed: a branch is indexed up to here at most
update store.branches set indexed = least(indexed, :stop) where id = :branch and indexed > :stop;

-- remove_row_vectors: of a branch's entries, from a position on
delete from store.vectors where owner = 'row'
and number >= (cast(:branch as bigint) << 32) + :stop and number < ((cast(:branch as bigint) + 1) << 32);

-- remove_branch: a branch that nothing needs
delete from store.branches where id = :branch;

-- remove_session: the head only
delete from store.sessions where session_id = :session_id;

-- remove_own_summaries: those that this session uses and no other, with their words
with gone as (
    delete from store.summaries where exists (
        select 1 from store.summary_uses as uses where uses.session_id = :session_id
        and uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) and not exists (
        select 1 from store.summary_uses as uses where uses.session_id <> :session_id
        and uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) returning id
), unindexed as (
    delete from store.words where number in (select -id from gone) returning part, size
)
insert into store.word_totals (texts, words)
select -count(*), -sum(size) from unindexed where part = 0 having count(*) > 0;

-- remove_uses: of one session
delete from store.summary_uses where session_id = :session_id;

-- remove_stale_uses: of all sessions
delete from store.summary_uses where stale;

-- remove_unused_summaries: those that no session uses, with their words; the bytes of their texts
with gone as (
    delete from store.summaries where not exists (
        select 1 from store.summary_uses as uses
        where uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) returning id, octet_length(text) as size
), unindexed as (
    delete from store.words where number in (select -id from gone) returning part, size
), counted as (
    insert into store.word_totals (texts, words)
    select -count(*), -sum(size) from unindexed where part = 0 having count(*) > 0
)
select cast(coalesce(sum(size), 0) as bigint) from gone;

-- remove_unnamed_vectors: what embeddings without a name left behind when their process was killed
delete from store.vectors where recipe ~ '^(unnamed |chroma .* unnamed )';

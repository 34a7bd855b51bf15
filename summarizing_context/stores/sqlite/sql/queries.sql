-- The queries of SQLite alone, each under its name and purpose.

-- note_writer: the process that has the session open, and its project when one is given
update sessions set writer_pid = :pid, project = coalesce(:project, project) where session_id = :session_id;

-- forget_writer: the session was given up by this process
update sessions set writer_pid = null where session_id = :session_id and writer_pid = :pid;

-- writer: the process that noted itself last
select writer_pid from sessions where session_id = :session_id;

-- sessions: the list, newest change first
select
    session_id, project, stop,
    (select count(*) from summary_uses as uses where uses.session_id = sessions.session_id and not uses.stale),
    created_at, updated_at, writer_pid,
    (select coalesce(sum(input_tokens), 0) from summary_uses as uses join summaries using (range_hash, recipe_hash)
        where uses.session_id = sessions.session_id and not uses.stale),
    (select coalesce(sum(output_tokens), 0) from summary_uses as uses join summaries using (range_hash, recipe_hash)
        where uses.session_id = sessions.session_id and not uses.stale),
    budget, null, failed, last_error, last_error_at, title
from sessions order by updated_at desc, session_id;

-- unneeded: a branch, of all or of deleted sessions, on which something lies that no head needs: how much of it they need
-- (null: not even the branch), and where its entries end; of what only other branches need, `everything` leaves nothing
with recursive needed (branch, stop) as (
    select branch, stop from sessions
    union
    select branch, stop from checkpoints
    union
    select parent, parent_stop from branches where session_id is not null and parent is not null and not :everything
    union
    select branches.parent, min(branches.parent_stop, needed.stop)
    from needed join branches on branches.id = needed.branch where branches.parent is not null
), held (branch, stop, ending) as (
    select id, max(needed.stop), (select coalesce(max(position) + 1, 0) from entries where entries.branch = id)
    from branches left join needed on needed.branch = id where :everything or session_id is null group by id
)
select branch, stop, ending from held where stop is null or stop < ending limit 1;

-- remove_entries: of a branch, from a position on
delete from entries where branch = :branch and position >= :stop;

-- remove_branch: a branch that nothing needs
delete from branches where id = :branch;

-- unused_summaries: some of those that no session uses
select id from summaries where not exists (
    select 1 from summary_uses as uses
    where uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
) limit :most;

-- remove_summaries: those of the ids, a JSON list
delete from summaries where id in (select value from json_each(:ids));

-- hold_checkpoint: whether it is there; in SQLite nobody removes it until the transaction ends
select 1 from checkpoints where id = :id;

-- guard_memories: nobody else keeps memories until the transaction ends; in SQLite it is the only one that writes
select 1;

-- remove_unnamed_vectors: what embeddings without a name left behind when their process was killed; and those of messages,
-- which an earlier version kept
delete from vectors where owner <> 'memory' or recipe glob 'unnamed *' or recipe glob 'chroma * unnamed *';

-- Every query of the SQLite store, each under its name and purpose; `queries.py` reads them.

-- create_session: a session with an empty log, on a branch made before
insert into sessions (session_id, project, branch, stop, created_at, updated_at)
values (:session_id, :project, :branch, 0, :now, :now);

-- note_writer: who has the session open, and its project when one is given
update sessions set writer_pid = :pid, project = coalesce(:project, project) where session_id = :session_id;

-- forget_writer: the session was given up by this process
update sessions set writer_pid = null where session_id = :session_id and writer_pid = :pid;

-- session: one session's project, writer and version, and when it changed last
select project, writer_pid, log_version, pins, updated_at from sessions where session_id = :session_id;

-- sessions: the list, newest change first
select
    session_id, project, stop,
    (select count(*) from summary_uses as uses where uses.session_id = sessions.session_id and not uses.stale),
    created_at, updated_at, writer_pid,
    (select coalesce(sum(input_tokens), 0) from summary_uses as uses join summaries using (range_hash, recipe_hash)
        where uses.session_id = sessions.session_id and not uses.stale),
    (select coalesce(sum(output_tokens), 0) from summary_uses as uses join summaries using (range_hash, recipe_hash)
        where uses.session_id = sessions.session_id and not uses.stale),
    budget
from sessions order by updated_at desc, session_id;

-- head: where the log ends, and whether the next place is not its own (the head was moved back, or is shared)
select branch, stop,
    exists (select 1 from entries where entries.branch = sessions.branch and position = stop)
    or exists (select 1 from branches where id = sessions.branch and parent_stop > stop)
from sessions where session_id = :session_id;

-- move_head: the log ends here now
update sessions set branch = :branch, stop = :stop, updated_at = :now where session_id = :session_id;

-- begin_branch: a new branch that leaves `parent` at `parent_stop`
insert into branches (session_id, parent, parent_stop) values (:session_id, :parent, :parent_stop);

-- parent: what a branch left, and where
select parent, parent_stop from branches where id = :branch;

-- add_entry: one entry at its place
insert into entries (branch, position, message, facts) values (?, ?, ?, ?);

-- ranges: the parts of branches that make up the log of a head, oldest first
with recursive chain (branch, parent, start, stop) as (
    select id, parent, parent_stop, :stop from branches where id = :branch
    union all
    select branches.id, branches.parent, branches.parent_stop, min(chain.start, chain.stop)
    from chain join branches on branches.id = chain.parent
)
select branch, start, stop from chain where start < stop order by start;

-- entries: those of one range, in order
select message, facts from entries where branch = ? and position >= ? and position < ? order by position;

-- activations: of a session, oldest first
select provider_key, state from activations where session_id = :session_id order by saved;

-- save_activation: as the newest of its session
insert into activations (session_id, provider_key, state, saved)
select :session_id, :provider_key, :state, coalesce(max(saved), 0) + 1
from activations where session_id = :session_id
on conflict (session_id, provider_key) do update set state = excluded.state, saved = excluded.saved;

-- save_budget: tokens of the last request
update sessions set budget = :budget where session_id = :session_id;

-- forget_activations: all but the newest `keep` of a session
delete from activations where session_id = :session_id and provider_key not in (
    select provider_key from activations where session_id = :session_id order by saved desc limit :keep
);

-- find_summaries: those of the keys, a JSON list of pairs, that are there
select range_hash, recipe_hash, text, rank, input_tokens, output_tokens
from json_each(:keys) as asked join summaries
    on range_hash = json_extract(asked.value, '$[0]') and recipe_hash = json_extract(asked.value, '$[1]');

-- save_summary: keep the first summary of a key; a second is ignored
insert into summaries (range_hash, recipe_hash, text, rank, input_tokens, output_tokens)
values (?, ?, ?, ?, ?, ?) on conflict (range_hash, recipe_hash) do nothing;

-- note_uses: of the keys (with the range that each stands for) that have a summary, by a session that exists
insert into summary_uses (session_id, range_hash, recipe_hash, start, stop)
select sessions.session_id, range_hash, recipe_hash,
    json_extract(asked.value, '$[2]'), json_extract(asked.value, '$[3]')
from json_each(:keys) as asked
join summaries on range_hash = json_extract(asked.value, '$[0]') and recipe_hash = json_extract(asked.value, '$[1]')
join sessions on sessions.session_id = :session_id
where true
on conflict (session_id, range_hash, recipe_hash) do update set
    stale = 0, start = coalesce(excluded.start, start), stop = coalesce(excluded.stop, stop)
where stale or start is not coalesce(excluded.start, start) or stop is not coalesce(excluded.stop, stop);

-- age_uses: what was noted belongs to a log that is no longer
update summary_uses set stale = 1 where session_id = :session_id and not stale;

-- disown_branches: their session is about to go
update branches set session_id = null where session_id = :session_id;

-- needed_of_disowned: branches of deleted sessions, each with how much of it the others need (null: nothing)
with recursive needed (branch, stop) as (
    select branch, stop from sessions
    union
    select branch, stop from checkpoints
    union
    select parent, parent_stop from branches where session_id is not null and parent is not null
    union
    select branches.parent, min(branches.parent_stop, needed.stop)
    from needed join branches on branches.id = needed.branch where branches.parent is not null
)
select branches.id, max(needed.stop) from branches left join needed on needed.branch = branches.id
where branches.session_id is null group by branches.id;

-- needed_by_heads: all branches, each with how much of it the heads of sessions and checkpoints need (null: nothing)
with recursive needed (branch, stop) as (
    select branch, stop from sessions
    union
    select branch, stop from checkpoints
    union
    select branches.parent, min(branches.parent_stop, needed.stop)
    from needed join branches on branches.id = needed.branch where branches.parent is not null
)
select branches.id, max(needed.stop) from branches left join needed on needed.branch = branches.id
group by branches.id;

-- remove_entries: of a branch, from a position on
delete from entries where branch = :branch and position >= :stop;

-- remove_branch: a branch that nothing needs
delete from branches where id = :branch;

-- remove_session: the head only
delete from sessions where session_id = :session_id;

-- remove_own_summaries: those that this session uses and no other
delete from summaries where exists (
    select 1 from summary_uses as uses where uses.session_id = :session_id
    and uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
) and not exists (
    select 1 from summary_uses as uses where uses.session_id <> :session_id
    and uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
);

-- remove_uses: of one session
delete from summary_uses where session_id = :session_id;

-- remove_stale_uses: of all sessions
delete from summary_uses where stale;

-- remove_unused_summaries: those that no session uses
delete from summaries where not exists (
    select 1 from summary_uses as uses
    where uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
);

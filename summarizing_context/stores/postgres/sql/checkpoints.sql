-- The queries about checkpoints, each under its name and purpose.

-- guard_states: no checkpoint is removed, and no state with it, until the transaction ends
lock table store.checkpoints in row exclusive mode;

-- log_version: how often a session's log was replaced
select log_version from store.sessions where session_id = :session_id;

-- note_replacement: one more
update store.sessions set log_version = log_version + 1 where session_id = :session_id;

-- add_checkpoint: a head that is kept
insert into store.checkpoints (session_id, name, branch, stop, showings, pins, created_at)
values (:session_id, :name, :branch, :stop, :showings, :pins, :now) returning id;

-- checkpoints: of a session, oldest first
select id, name, stop, created_at from store.checkpoints where session_id = :session_id order by id;

-- checkpoint: by its id, else the newest of this name
select id, name, stop, created_at, branch, showings, pins from store.checkpoints
where session_id = :session_id and (id = cast(:id as bigint) or name = cast(:name as text))
order by coalesce(id = cast(:id as bigint), false) desc, id desc limit 1;

-- hold_checkpoint: nobody removes it, or the session that it is of, until the transaction ends
select 1 from store.checkpoints where id = :id for key share;

-- newest_checkpoints: the ids of a few, the newest first
select id from store.checkpoints where session_id = :session_id order by id desc limit 5;

-- same_checkpoint: the newest that equals this state of a session
select id, name, stop, created_at from store.checkpoints
where session_id = :session_id and branch = :branch and stop = :stop and showings = :showings and pins = :pins
order by id desc limit 1;

-- find_checkpoint_state: its number, if it is kept already
select id from store.checkpoint_states where digest = :digest;

-- add_checkpoint_state: a state, packed
insert into store.checkpoint_states (digest, state, base, depth) values (:digest, :state, :base, :depth) returning id;

-- checkpoint_state: by its number, and the number of what it is packed against
select state, base from store.checkpoint_states where id = :id;

-- state_depth: its number, how many states it builds on, and its name
select id, depth, digest from store.checkpoint_states where id = :id;

-- newest_showings: what was shown at a session's newest checkpoint
select showings from store.checkpoints where session_id = :session_id order by id desc limit 1;

-- has_unused_states: whether there are some that no checkpoint has
select 1 from store.checkpoint_states where id not in (
    select cast(showing ->> 1 as bigint)
    from store.checkpoints, json_array_elements(cast(checkpoints.showings as json)) as showing
) limit 1;

-- states_on_unused: those that a checkpoint has and that are packed against one that none has
with used as materialized (
    select distinct cast(showing ->> 1 as bigint) as id
    from store.checkpoints, json_array_elements(cast(checkpoints.showings as json)) as showing
)
select id from store.checkpoint_states
where id in (select id from used) and base is not null and base not in (select id from used);

-- pack_state_alone: it builds on no other any longer
update store.checkpoint_states set state = :state, base = null, depth = 0 where id = :id;

-- copy_uses: what a session uses, for its fork too
insert into store.summary_uses (session_id, range_hash, recipe_hash, stale, start, stop)
select :fork, range_hash, recipe_hash, stale, start, stop from store.summary_uses where session_id = :session_id
on conflict (session_id, range_hash, recipe_hash) do nothing;

-- project: of a session, and its budget
select project, budget from store.sessions where session_id = :session_id;

-- remove_checkpoint: one
delete from store.checkpoints where id = :id;

-- remove_checkpoints: of a session
delete from store.checkpoints where session_id = :session_id;

-- remove_unused_states: those that no checkpoint has
delete from store.checkpoint_states where id not in (
    select cast(showing ->> 1 as bigint)
    from store.checkpoints, json_array_elements(cast(checkpoints.showings as json)) as showing
);

-- The queries about checkpoints, each under its name and purpose; `queries.py` reads them.

-- guard_states: no checkpoint is removed until the transaction ends; in SQLite it is the only one that writes
select 1;

-- guard_removal: nobody else makes a head or keeps a checkpoint until the transaction ends; as above
select 1;

-- log_version: how often a session's log was replaced
select log_version from sessions where session_id = :session_id;

-- note_replacement: one more
update sessions set log_version = log_version + 1 where session_id = :session_id;

-- add_checkpoint: a head that is kept
insert into checkpoints (session_id, name, branch, stop, showings, pins, created_at)
values (:session_id, :name, :branch, :stop, :showings, :pins, :now);

-- checkpoints: of a session, oldest first
select id, name, stop, created_at from checkpoints where session_id = :session_id order by id;

-- checkpoint: by its id, else the newest of this name
select id, name, stop, created_at, branch, showings, pins from checkpoints
where session_id = :session_id and (id = :id or name = :name) order by id = :id desc, id desc limit 1;

-- hold_checkpoint: whether it is there; in SQLite nobody removes it until the transaction ends
select 1 from checkpoints where id = :id;

-- newest_checkpoints: the ids of a few, the newest first
select id from checkpoints where session_id = :session_id order by id desc limit 5;

-- same_checkpoint: the newest that equals this state of a session
select id, name, stop, created_at from checkpoints
where session_id = :session_id and branch = :branch and stop = :stop and showings = :showings and pins = :pins
order by id desc limit 1;

-- find_checkpoint_state: its number, if it is kept already
select id from checkpoint_states where digest = :digest;

-- add_checkpoint_state: a state, packed
insert into checkpoint_states (digest, state, base, depth) values (:digest, :state, :base, :depth);

-- checkpoint_state: by its number, and the number of what it is packed against
select state, base from checkpoint_states where id = :id;

-- state_depth: its number, how many states it builds on, and its name
select id, depth, digest from checkpoint_states where id = :id;

-- newest_showings: what was shown at a session's newest checkpoint
select showings from checkpoints where session_id = :session_id order by id desc limit 1;

-- states_on_unused: those that a checkpoint has and that are packed against one that none has
with used as materialized (
    select distinct json_extract(showing.value, '$[1]') as id
    from checkpoints, json_each(checkpoints.showings) as showing
)
select id from checkpoint_states where id in used and base is not null and base not in used;

-- pack_state_alone: it builds on no other any longer
update checkpoint_states set state = :state, base = null, depth = 0 where id = :id;

-- copy_uses: what a session uses, for its fork too
insert into summary_uses (session_id, range_hash, recipe_hash, stale, start, stop)
select :fork, range_hash, recipe_hash, stale, start, stop from summary_uses where session_id = :session_id
on conflict (session_id, range_hash, recipe_hash) do nothing;

-- project: of a session, and its budget
select project, budget from sessions where session_id = :session_id;

-- remove_checkpoint: one
delete from checkpoints where id = :id;

-- remove_checkpoints: of a session
delete from checkpoints where session_id = :session_id;

-- remove_unused_states: those that no checkpoint has
delete from checkpoint_states where id not in (
    select json_extract(showing.value, '$[1]') from checkpoints, json_each(checkpoints.showings) as showing
);

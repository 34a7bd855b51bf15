-- The queries of a migration, each under its name and purpose.

-- origins: which sessions there are, since when, and the digest of what each was when it came from a file
select session_id, created_at, origin from store.sessions where session_id = any(:session_ids);

-- migrate_session: the head of one
insert into store.sessions
    (session_id, project, branch, stop, created_at, updated_at, log_version, pins, budget, origin)
values
    (:session_id, :project, :branch, :stop, :created_at, :updated_at, :log_version, :pins, :budget, :origin);

-- note_origin: what a session is, is what it was in its file
update store.sessions set origin = :origin where session_id = :session_id;

-- migrate_activation: one
insert into store.activations (session_id, provider_key, state, saved) values (?, ?, ?, ?);

-- migrate_history: one activation
insert into store.activation_history (session_id, number, provider_key, log_version, figures, before, undone)
values (?, ?, ?, ?, ?, ?, ?);

-- migrate_use: of a summary by a session
insert into store.summary_uses (session_id, range_hash, recipe_hash, stale, start, stop)
values (?, ?, ?, cast(? as bigint) <> 0, ?, ?) on conflict do nothing;

-- migrate_state: of a checkpoint; one that is there already counts
insert into store.checkpoint_states (digest, state, base, depth) values (:digest, :state, :base, :depth)
on conflict (digest) do update set digest = excluded.digest returning id;

-- checkpoint_ids: which of these numbers are taken
select id from store.checkpoints where id = any(:ids);

-- migrate_checkpoint: under its own number
insert into store.checkpoints (id, session_id, name, branch, stop, showings, pins, created_at)
overriding system value
values (:id, :session_id, :name, :branch, :stop, :showings, :pins, :created_at) returning id;

-- keep_checkpoint_ids: new checkpoints get numbers that are free
select setval(
    pg_get_serial_sequence('store.checkpoints', 'id'),
    greatest(
        (select coalesce(max(id), 0) + 1 from store.checkpoints),
        nextval(pg_get_serial_sequence('store.checkpoints', 'id'))
    ),
    false
);

-- migrated_memory: under which number one was taken over
select number from store.migrated_memories where origin = :origin;

-- note_memory: it was taken over
insert into store.migrated_memories (origin, number) values (:origin, :number);

-- forget_migrated: what a session without a project had taken over may be taken over again
delete from store.migrated_memories using store.memories
where memories.id = number and memories.session_id = :session_id and memories.project is null;

-- memory_numbered: one
select content, metadata, updated_at from store.memories where id = :id;

-- migrate_memory: one
insert into store.memories (project, session_id, content, metadata, created_at, updated_at)
values (:project, :session_id, :content, :metadata, :created_at, :updated_at) returning id;

-- renew_memory: it was changed in its file
update store.memories set content = :content, metadata = :metadata, updated_at = :updated_at where id = :id;

-- migrate_mark: unless it is there
insert into store.memory_marks (mark, reader, project, session_id)
select :mark, :reader, cast(:project as text), cast(:session_id as text) where not exists (
    select 1 from store.memory_marks where mark = :mark and reader = :reader
    and project is not distinct from cast(:project as text) and (project is not null or session_id = :session_id)
);

-- add_vector: unless there is one
insert into store.vectors (owner, number, recipe, vector) values (:owner, :number, :recipe, :vector)
on conflict (owner, number, recipe) do nothing;

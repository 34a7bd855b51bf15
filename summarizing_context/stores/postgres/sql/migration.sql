-- The queries of `migrate`, each under its name and purpose.

-- migrated: under which numbers things of one kind were taken over
select old, new from store.migrated where source = :source and kind = :kind;

-- note_migrated: one
insert into store.migrated (source, kind, old, new) values (:source, :kind, :old, :new);

-- migrate_session: the head of one
insert into store.sessions (session_id, project, branch, stop, created_at, updated_at, log_version, pins, budget)
values (:session_id, :project, :branch, :stop, :created_at, :updated_at, :log_version, :pins, :budget);

-- migrate_activation: one
insert into store.activations (session_id, provider_key, state, saved) values (?, ?, ?, ?);

-- migrate_history: one activation
insert into store.activation_history (session_id, number, provider_key, log_version, figures, before, undone)
values (?, ?, ?, ?, ?, ?, ?);

-- migrate_summary: one; the first write wins
insert into store.summaries (range_hash, recipe_hash, text, rank, input_tokens, output_tokens)
values (?, ?, ?, ?, ?, ?) on conflict (range_hash, recipe_hash) do nothing;

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
    pg_get_serial_sequence('store.checkpoints', 'id'), (select coalesce(max(id), 0) + 1 from store.checkpoints), false
);

-- migrate_memory: one
insert into store.memories (project, session_id, content, metadata, created_at, updated_at)
values (:project, :session_id, :content, :metadata, :created_at, :updated_at) returning id;

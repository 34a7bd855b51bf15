-- The queries that all databases share, each under its name and purpose. `store.` stands for the schema; `json_each` and
-- `json_extract` are SQLite's, and functions of the schema elsewhere. What only PostgreSQL has is translated for SQLite.
-- `remove_` and the name of a table that has rows of sessions removes those of one; `remove_one_of_` one row by its id.

-- create_session: a session whose log is that of a head
insert into store.sessions (session_id, project, branch, stop, below, created_at, updated_at)
values (:session_id, :project, :branch, :stop, :below, :now, :now);

-- session: one session, when it changed last, and where its log ends
select branch, stop, below, log_version, project, pins, updated_at, failed, last_error, last_error_at, budget, title,
    fixed_tokens
from store.sessions where session_id = :session_id;

-- lock_session: the writer that has a session, or had it; no other changes it until the transaction ends
select sessions.writer, writers.host, writers.pid
from store.sessions left join store.writers on writers.id = sessions.writer
where session_id = :session_id for update of sessions;

-- take_session: for this writer, with a fence that no writer before it has
update store.sessions set writer = :writer, fence = fence + 1, project = coalesce(:project, project)
where session_id = :session_id returning fence;

-- check_fence: a session is still this writer's; no other takes it until the transaction ends
select 1 from store.sessions where session_id = :session_id and writer = :writer and fence = :fence for update;

-- release_session: if this writer still has it
update store.sessions set writer = null where writer = :writer and session_id = :session_id;

-- sessions: the list, newest change first, with the writers that live
select
    sessions.session_id, project, stop, coalesce(used.summaries, 0), created_at, updated_at, writers.pid,
    coalesce(used.input_tokens, 0), coalesce(used.output_tokens, 0), budget, writers.host,
    failed, last_error, last_error_at, title
from store.sessions left join store.writers on writers.id = sessions.writer and store.lives(writers.id)
left join (
    select uses.session_id, count(*) as summaries, cast(sum(input_tokens) as bigint) as input_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens
    from store.summary_uses as uses left join store.summaries using (range_hash, recipe_hash)
    where not uses.stale group by uses.session_id
) as used on used.session_id = sessions.session_id
order by updated_at desc, sessions.session_id;

-- move_head: the log ends here now, and counts how often it was replaced
update store.sessions set branch = :branch, stop = :stop, below = :below, log_version = log_version + :replaced,
    updated_at = :now
where session_id = :session_id;

-- begin_branch: a new branch
insert into store.branches (session_id) values (:session_id) returning id;

-- add_entry: one entry at its place
insert into store.entries (branch, position, message, facts) values (?, ?, ?, ?);

-- update_facts: of one entry, unless another message stands there
update store.entries set facts = ? where branch = ? and position = ? and message = ?;

-- entries: those of one range, in order
select message, facts from store.entries where branch = :branch and position >= :start and position < :stop order by position;

-- activations: of a session, oldest first
select provider_key, state from store.activations where session_id = :session_id order by saved;

-- save_request: tokens of the last request, and what the session is about
update store.sessions
set budget = cast(:budget as bigint), title = cast(:title as text), fixed_tokens = cast(:fixed_tokens as bigint)
where session_id = :session_id;

-- save_failure: what went wrong last, and how many summaries were given up since
update store.sessions set
    failed = failed + cast(:failed as bigint), last_error = cast(:error as text), last_error_at = cast(:at as text)
where session_id = :session_id;

-- save_activation: as the newest of its session
insert into store.activations (session_id, provider_key, state, saved)
select cast(:session_id as text), :provider_key, :state, coalesce(max(saved), 0) + 1
from store.activations where session_id = :session_id
on conflict (session_id, provider_key) do update set state = excluded.state, saved = excluded.saved;

-- forget_activations: all but the newest `keep` of a session
delete from store.activations where session_id = :session_id and provider_key not in (
    select provider_key from store.activations where session_id = :session_id order by saved desc limit :keep
);

-- save_summary: keep the first summary of a key, and tell its number; a second is ignored
insert into store.summaries (range_hash, recipe_hash, text, rank, input_tokens, output_tokens)
values (:range_hash, :recipe_hash, :text, :rank, :input_tokens, :output_tokens)
on conflict (range_hash, recipe_hash) do nothing returning id;

-- summaries_of: those that a session uses, with the entries for which each stands
select range_hash, recipe_hash, start, stop, text, rank, input_tokens, output_tokens
from store.summary_uses join store.summaries using (range_hash, recipe_hash)
where session_id = :session_id and not stale order by start, summaries.id;

-- age_uses: what was noted belongs to a log that is no longer
update store.summary_uses set stale = true where session_id = :session_id and not stale;

-- save_pins: in the place of those a session had
update store.sessions set pins = :pins where session_id = :session_id;

-- add_checkpoint: a head that is kept, with the pins of its session
insert into store.checkpoints (session_id, name, stop, below, states, pins, created_at)
select session_id, :name, :stop, :below, :states, pins, :now
from store.sessions where session_id = :session_id returning id;

-- checkpoints: of a session, oldest first
select id, name, stop, created_at from store.checkpoints where session_id = :session_id order by id;

-- checkpoint: by its id, else the newest of this name
select id, name, stop, created_at, below, states, pins from store.checkpoints
where session_id = :session_id and (id = cast(:id as bigint) or name = cast(:name as text))
order by coalesce(id = cast(:id as bigint), false) desc, id desc limit 1;

-- copy_uses: what a session uses, for its fork too
insert into store.summary_uses (session_id, range_hash, recipe_hash, stale, start, stop)
select :fork, range_hash, recipe_hash, stale, start, stop from store.summary_uses where session_id = :session_id
on conflict do nothing;

-- add_to_history: an activation of the present log
insert into store.activation_history (session_id, number, provider_key, log_version, figures, before)
values (
    :session_id, :number, :provider_key, (select log_version from store.sessions where session_id = :session_id),
    :figures, :before
)
on conflict (session_id, number) do nothing;

-- update_history: an activation was taken back, and of all but the newest the states before them go
update store.activation_history set
    undone = undone or number = coalesce(cast(:undone as bigint), -1),
    before = case when number > :number - :keep then before end
where session_id = :session_id
and (number = cast(:undone as bigint) or (number <= :number - :keep and before is not null));

-- history: of a session, oldest first
select number, provider_key, log_version, figures, before is not null, undone
from store.activation_history where session_id = :session_id order by number;

-- state_before: one activation
select before from store.activation_history where session_id = :session_id and number = :number;

-- forget_replaced_states: those of logs that were replaced
update store.activation_history set before = null where before is not null and log_version <> (
    select log_version from store.sessions where sessions.session_id = activation_history.session_id
);

-- add_memory: one
insert into store.memories (scope, content, metadata, created_at, updated_at)
values (:scope, :content, :metadata, :now, :now) returning id;

-- memories: all in scope, or in the store, oldest first
select id, content, metadata, created_at, updated_at from store.memories
where scope = coalesce(cast(:scope as text), scope) order by id;

-- update_memory: its content and metadata
update store.memories set content = :content, metadata = :metadata, updated_at = :now where id = :id;

-- add_mark: one
insert into store.memory_marks (mark, reader, scope) values (:mark, :reader, :scope);

-- remove_owner_of_branches: their session is about to go, and its name may be taken while they are removed
update store.branches set session_id = null where session_id = :session_id;

-- remove_own_vectors: of the memories of one scope
delete from store.vectors where id in (select id from store.memories where scope = :scope);

-- save_vector: keep it; an older one of the same text is replaced
insert into store.vectors (id, recipe, vector) values (:number, :recipe, :vector)
on conflict (id, recipe) do update set vector = excluded.vector;

-- remove_unnamed_vectors: what embeddings without a name left behind
delete from store.vectors where recipe like 'unnamed %' or recipe like 'chroma % unnamed %';

-- branches: all, or those of deleted sessions, with the places where their entries end
select id, coalesce((select max(position) + 1 from store.entries where branch = id), 0)
from store.branches where cast(:everything as boolean) or session_id is null;

-- heads: of all sessions and checkpoints
select branch, stop, below from store.sessions union all select 0, stop, below from store.checkpoints;

-- remove_entries: the last `most` of a branch, none of them before a position
delete from store.entries where branch = :branch and position >= :start
and position > (select max(position) from store.entries where branch = :branch) - :most returning position, message;

-- remove_unused_summaries: some of those that no session uses
delete from store.summaries where id in (
    select id from store.summaries where not exists (
        select 1 from store.summary_uses as uses
        where uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
    ) limit :most
) returning -id, text;

-- remove_stale_uses: of all sessions, but for what a checkpoint may stand on; and what was noted while one was deleted
delete from store.summary_uses as uses where stale and not exists (
    select 1 from store.checkpoints as kept
    where kept.session_id = uses.session_id and kept.stop >= coalesce(uses.stop, 0)
) or session_id not in (select session_id from store.sessions);

-- sessions_in_scope: by id, by project, or all; the newest change last
select session_id, branch, stop, below from store.sessions
where (cast(:session_id as text) is null or session_id = :session_id)
and (cast(:project as text) is null or project = :project)
order by updated_at;

-- summary_places: the sessions that use a summary, what it stands for there, and its text
select session_id, start, stop, text from store.summary_uses as uses
join store.summaries on uses.range_hash = summaries.range_hash and uses.recipe_hash = summaries.recipe_hash
where summaries.id = :id and not stale and start is not null;

-- find_summaries: those of the keys, a JSON list of pairs, that are there
select range_hash, recipe_hash, text, rank, input_tokens, output_tokens
from store.json_each(:keys) as asked join store.summaries
    on range_hash = store.json_extract(asked.value, '$[0]') and recipe_hash = store.json_extract(asked.value, '$[1]');

-- note_uses: of the keys (with the range that each stands for) that have a summary, by a session that exists
insert into store.summary_uses as uses (session_id, range_hash, recipe_hash, start, stop)
select distinct sessions.session_id, range_hash, recipe_hash,
    cast(store.json_extract(asked.value, '$[2]') as bigint), cast(store.json_extract(asked.value, '$[3]') as bigint)
from store.json_each(:keys) as asked join store.summaries
    on range_hash = store.json_extract(asked.value, '$[0]') and recipe_hash = store.json_extract(asked.value, '$[1]')
join store.sessions on sessions.session_id = :session_id
where true
on conflict (session_id, range_hash, recipe_hash) do update set
    stale = false, start = coalesce(excluded.start, uses.start), stop = coalesce(excluded.stop, uses.stop)
where uses.stale or coalesce(uses.start, -1) <> coalesce(excluded.start, uses.start, -1)
    or coalesce(uses.stop, -1) <> coalesce(excluded.stop, uses.stop, -1);

-- marked: which of the marks, a JSON list, are there in scope
select mark from store.memory_marks
where reader = :reader and scope = :scope and mark in (select value from store.json_each(:marks));

-- vectors_of: those of the numbers, a JSON list, each looked up ("cross": left to choose, SQLite compares all with all)
select vectors.id, vector from store.json_each(:numbers) as asked
cross join store.vectors where vectors.id = cast(asked.value as bigint) and recipe = :recipe;

-- The queries of the PostgreSQL store, each under its name and purpose. `store.` stands for the schema.

-- create_session: a session with an empty log, on a branch made before
insert into store.sessions (session_id, project, branch, stop, created_at, updated_at)
values (:session_id, :project, :branch, 0, :now, :now);

-- lock_session: who has a session, or had it; nobody else changes it until the transaction ends
select sessions.writer, writers.host, writers.pid, writers.until > clock_timestamp()
from store.sessions left join store.writers on writers.id = sessions.writer
where session_id = :session_id for update of sessions;

-- silent_writer: one whose lease has ended and that has no transaction open, for that holds its row
select 1 where not exists (select 1 from store.writers where id = :writer) or exists (
    select 1 from (select until from store.writers where id = :writer for share skip locked) as free
    where until <= clock_timestamp()
);

-- take_session: for this writer, with a fence that no writer before it has
update store.sessions set writer = :writer, fence = fence + 1, project = coalesce(:project, project)
where session_id = :session_id returning fence;

-- release_sessions: those that this writer still has
update store.sessions set writer = null where writer = :writer and session_id = any(:sessions);

-- add_writer: this one, with its lease
insert into store.writers (id, host, pid, until)
values (:writer, :host, :pid, clock_timestamp() + make_interval(secs => :lease)) on conflict (id) do nothing;

-- remove_writer: this one has ended
delete from store.writers where id = :writer;

-- tidy_writers: those whose lease ended long ago
delete from store.writers where until < clock_timestamp() - interval '1 day';

-- keep_lease: of this writer, between two transactions
with kept as (
    update store.writers set until = clock_timestamp() + make_interval(secs => :lease) where id = :writer returning 1
)
select store.expect((select count(*) from kept), 1);

-- renew: note the transaction and renew the lease; the transaction fails if the writer is not there
with kept as (
    update store.writers set batch = :batch, until = clock_timestamp() + make_interval(secs => :lease)
    where id = :writer returning 1
)
select store.expect((select count(*) from kept), 1),
    set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '60s', true);

-- newest_batch: the newest transaction of a writer that was committed; waits for one that is still under way
select batch from store.writers where id = :writer for update;

-- check_fence: whether a session is still this writer's; nobody takes it until the transaction ends
select 1 from store.sessions where session_id = :session_id and writer = :writer and fence = :fence for update;

-- move_heads: of several sessions, by the arrays; the transaction fails unless all are this writer's
with given as (
    select * from unnest(
        cast(:sessions as text[]), cast(:fences as bigint[]), cast(:branches as bigint[]), cast(:starts as bigint[]),
        cast(:stops as bigint[])
    ) as given (session_id, fence, branch, start, stop)
), moved as (
    update store.sessions set stop = given.stop, updated_at = :now from given
    where sessions.session_id = given.session_id and sessions.writer = :writer and sessions.fence = given.fence
    and sessions.branch = given.branch and sessions.stop = given.start returning 1
)
select store.expect((select count(*) from moved), :count);

-- commit_appends: gathered entries of several sessions, with their heads, rules and the lease; its own transaction
select store.commit_appends(
    :writer, :batch, :lease, :now,
    cast(:sessions as text[]), cast(:fences as bigint[]), cast(:branches as bigint[]), cast(:starts as bigint[]),
    cast(:stops as bigint[]), cast(:entry_branches as bigint[]), cast(:entry_positions as bigint[]),
    cast(%(messages)b as bytea[]), cast(%(facts)b as bytea[]), cast(:rule_sessions as text[]),
    cast(:digests as bytea[]), cast(:versions as text[]), cast(:rule_positions as bigint[]), cast(:rules as bytea[])
);

-- add_entries: those of the arrays
insert into store.entries (branch, position, message, facts)
select * from unnest(cast(%b as bigint[]), cast(%b as bigint[]), cast(%b as bytea[]), cast(%b as bytea[]));

-- copy_entries: many
copy store.entries (branch, position, message, facts) from stdin (format binary);

-- session: one session's project, writer and version, and when it changed last
select project, null, log_version, pins, updated_at from store.sessions where session_id = :session_id;

-- sessions: the list, newest change first, with the writers whose lease holds
select
    sessions.session_id, project, stop, coalesce(used.summaries, 0), created_at, updated_at, writers.pid,
    coalesce(used.input_tokens, 0), coalesce(used.output_tokens, 0), budget, writers.host
from store.sessions
left join store.writers on writers.id = sessions.writer and writers.until > clock_timestamp()
left join (
    select uses.session_id, count(*) as summaries, cast(coalesce(sum(input_tokens), 0) as bigint) as input_tokens,
        cast(coalesce(sum(output_tokens), 0) as bigint) as output_tokens
    from store.summary_uses as uses left join store.summaries using (range_hash, recipe_hash)
    where not uses.stale group by uses.session_id
) as used on used.session_id = sessions.session_id
order by updated_at desc, sessions.session_id;

-- head: where the log ends, and whether the next place is not its own (the head was moved back, or is shared)
select branch, stop,
    exists (select 1 from store.entries where entries.branch = sessions.branch and position = stop)
    or exists (select 1 from store.branches where id = sessions.branch and parent_stop > stop)
from store.sessions where session_id = :session_id;

-- move_head: the log ends here now
update store.sessions set branch = :branch, stop = :stop, updated_at = :now where session_id = :session_id;

-- begin_branch: a new branch that leaves `parent` at `parent_stop`
insert into store.branches (session_id, parent, parent_stop) values (:session_id, :parent, :parent_stop) returning id;

-- parent: what a branch left, and where
select parent, parent_stop from store.branches where id = :branch;

-- add_entry: one entry at its place
insert into store.entries (branch, position, message, facts) values (?, ?, ?, ?);

-- ranges: the parts of branches that make up the log of a head, oldest first
with recursive chain (branch, parent, start, stop) as (
    select id, parent, parent_stop, cast(:stop as bigint) from store.branches where id = :branch
    union all
    select branches.id, branches.parent, branches.parent_stop, least(chain.start, chain.stop)
    from chain join store.branches on branches.id = chain.parent
)
select branch, start, stop from chain where start < stop order by start;

-- entries: those of one range, in order
select message, facts from store.entries where branch = ? and position >= ? and position < ? order by position;

-- activations: of a session, oldest first
select provider_key, state from store.activations where session_id = :session_id order by saved;

-- save_budget: tokens of the last request
update store.sessions set budget = cast(:budget as bigint) where session_id = :session_id;

-- save_activation: as the newest of its session
insert into store.activations (session_id, provider_key, state, saved)
select cast(:session_id as text), :provider_key, :state, coalesce(max(saved), 0) + 1
from store.activations where session_id = :session_id
on conflict (session_id, provider_key) do update set state = excluded.state, saved = excluded.saved;

-- forget_activations: all but the newest `keep` of a session
delete from store.activations where session_id = :session_id and provider_key not in (
    select provider_key from store.activations where session_id = :session_id order by saved desc limit :keep
);

-- find_summaries: those of the keys, a JSON list of pairs, that are there
select range_hash, recipe_hash, text, rank, input_tokens, output_tokens
from jsonb_array_elements(cast(:keys as jsonb)) as asked join store.summaries
    on range_hash = asked ->> 0 and recipe_hash = asked ->> 1;

-- save_summary: keep the first summary of a key; a second is ignored
insert into store.summaries (range_hash, recipe_hash, text, rank, input_tokens, output_tokens)
values (?, ?, ?, ?, ?, ?) on conflict (range_hash, recipe_hash) do nothing;

-- note_uses: of the keys (with the range that each stands for) that have a summary, by a session that exists
insert into store.summary_uses as uses (session_id, range_hash, recipe_hash, start, stop)
select distinct on (range_hash, recipe_hash)
    sessions.session_id, range_hash, recipe_hash, cast(asked ->> 2 as bigint), cast(asked ->> 3 as bigint)
from jsonb_array_elements(cast(:keys as jsonb)) as asked
join store.summaries on range_hash = asked ->> 0 and recipe_hash = asked ->> 1
join store.sessions on sessions.session_id = :session_id
order by range_hash, recipe_hash
on conflict (session_id, range_hash, recipe_hash) do update set
    stale = false, start = coalesce(excluded.start, uses.start), stop = coalesce(excluded.stop, uses.stop)
where uses.stale or uses.start is distinct from coalesce(excluded.start, uses.start)
    or uses.stop is distinct from coalesce(excluded.stop, uses.stop);

-- age_uses: what was noted belongs to a log that is no longer
update store.summary_uses set stale = true where session_id = :session_id and not stale;

-- pins: of a session
select pins from store.sessions where session_id = :session_id;

-- save_pins: in the place of those a session had
update store.sessions set pins = :pins where session_id = :session_id;

-- add_rules: of a message; the first message of the same bytes counts
insert into store.rules (session_id, digest, version, position, rules) values (?, ?, ?, ?, ?) on conflict do nothing;

-- rules: of a session, in the order of its log
select digest, version, rules from store.rules where session_id = :session_id order by position, version;

-- copy_rules: into a fork, of the messages that it has from the present log
insert into store.rules (session_id, digest, version, position, rules)
select :fork, digest, version, position, rules from store.rules
where session_id = :session_id and position < :stop;

-- forget_rules: of the messages from a place on
delete from store.rules where session_id = :session_id and position >= :keep;

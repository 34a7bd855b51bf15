-- The queries of PostgreSQL alone, each under its name and purpose. `store.` stands for the schema.

-- lock_session: the writer that has a session, or had it; nobody else changes it until the transaction ends
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

-- sessions: the list, newest change first, with the writers whose lease holds
select
    sessions.session_id, project, stop, coalesce(used.summaries, 0), created_at, updated_at, writers.pid,
    coalesce(used.input_tokens, 0), coalesce(used.output_tokens, 0), budget, writers.host,
    failed, last_error, last_error_at, title
from store.sessions
left join store.writers on writers.id = sessions.writer and writers.until > clock_timestamp()
left join (
    select uses.session_id, count(*) as summaries, cast(coalesce(sum(input_tokens), 0) as bigint) as input_tokens,
        cast(coalesce(sum(output_tokens), 0) as bigint) as output_tokens
    from store.summary_uses as uses left join store.summaries using (range_hash, recipe_hash)
    where not uses.stale group by uses.session_id
) as used on used.session_id = sessions.session_id
order by updated_at desc, sessions.session_id;

-- hold_checkpoint: nobody removes it, or the session that it is of, until the transaction ends
select 1 from store.checkpoints where id = :id for key share;

-- guard_memories: nobody else keeps memories of this scope until the transaction ends
select pg_advisory_xact_lock(hashtextextended(coalesce('project ' || cast(:project as text), 'session ' || :session_id), 7));

-- take_claim: for this writer, where nobody holds it, its deadline has passed, or the lease of its holder has ended
insert into store.claims (range_hash, recipe_hash, writer, until)
values (:range_hash, :recipe_hash, :writer, clock_timestamp() + make_interval(secs => :seconds))
on conflict (range_hash, recipe_hash) do update set writer = excluded.writer, until = excluded.until
where claims.until < clock_timestamp() or not exists (
    select 1 from store.writers where writers.id = claims.writer and writers.until > clock_timestamp()
)
returning 1;

-- give_up_claim: of this writer
delete from store.claims where range_hash = :range_hash and recipe_hash = :recipe_hash and writer = :writer;

-- remove_claims: of this writer, and those of writers that are no longer
delete from store.claims where writer = :writer or not exists (select 1 from store.writers where id = claims.writer);

-- The queries of PostgreSQL alone, each under its name and purpose. `store.` stands for the schema.

-- living_writer: one whose lease holds, or that has a transaction open, for that holds its row
select 1 from store.writers where id = :writer and (until > clock_timestamp() or not exists (
    select 1 from (select 1 from store.writers where id = :writer for share skip locked) as free
));

-- add_writer: this one, with its lease
insert into store.writers (id, host, pid, until)
values (:writer, :host, :pid, clock_timestamp() + make_interval(secs => :lease)) on conflict (id) do nothing;

-- remove_writer: this one has ended
delete from store.writers where id = :writer;

-- tidy_writers: those whose lease ended long ago
delete from store.writers where until < clock_timestamp() - interval '1 day';

-- renew: note the transaction and renew the lease
update store.writers set batch = :batch, until = clock_timestamp() + make_interval(secs => :lease) where id = :writer
returning set_config('lock_timeout', '10s', true), set_config('idle_in_transaction_session_timeout', '60s', true);

-- newest_batch: the newest transaction of a writer that was committed; waits for one that is still under way
select batch from store.writers where id = :writer for update;

-- guard: no other does this until the transaction ends
select pg_advisory_xact_lock(hashtextextended('store.guard ' || :what, 7));

-- take_claim: for this writer, where no writer holds it, its deadline has passed, or the lease of its holder has ended
insert into store.claims (range_hash, recipe_hash, writer, until)
values (:range_hash, :recipe_hash, :writer, clock_timestamp() + make_interval(secs => :seconds))
on conflict (range_hash, recipe_hash) do update set writer = excluded.writer, until = excluded.until
where claims.until < clock_timestamp() or not store.lives(claims.writer)
returning 1;

-- give_up_claim: of this writer
delete from store.claims where range_hash = :range_hash and recipe_hash = :recipe_hash and writer = :writer;

-- remove_claims: of this writer, and those of writers that are no longer
delete from store.claims where writer = :writer or not exists (select 1 from store.writers where id = claims.writer);

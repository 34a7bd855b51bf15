-- The queries about claims of summaries, each under its name and purpose.

-- take_claim: for this writer, where nobody holds it, its deadline has passed, or the lease of who holds it has ended
insert into store.claims (range_hash, recipe_hash, writer, until)
values (:range_hash, :recipe_hash, :writer, clock_timestamp() + make_interval(secs => :seconds))
on conflict (range_hash, recipe_hash) do update set writer = excluded.writer, until = excluded.until, wanted = false
where claims.until < clock_timestamp() or not exists (
    select 1 from store.writers where writers.id = claims.writer and writers.until > clock_timestamp()
)
returning 1;

-- want_claim: this host waits for it
update store.claims set wanted = true where range_hash = :range_hash and recipe_hash = :recipe_hash and not wanted;

-- give_up_claim: of this writer; who waits is told
with gone as (
    delete from store.claims
    where range_hash = :range_hash and recipe_hash = :recipe_hash and writer = :writer returning wanted
)
select pg_notify(:channel, :payload) from gone where wanted;

-- remove_claims: of this writer, and those of writers that are no longer
delete from store.claims where writer = :writer or not exists (select 1 from store.writers where id = claims.writer);

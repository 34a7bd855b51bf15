-- The queries about requests for the pool's workers, each under its name and purpose.

-- ask: of one that failed, how often it fails counts from 0 again
insert into store.requests (range_hash, recipe_hash, session_id, queue, request)
values (:range_hash, :recipe_hash, :session_id, :queue, :request)
on conflict (range_hash, recipe_hash) do update set request = excluded.request, error = null, retry_at = null,
asked_at = now(), failures = case when requests.error is null then requests.failures else 0 end;

-- open_requests: the oldest of a queue that wait, or are to be tried again, and that no living writer has claimed; no
-- other worker gets them until the transaction ends
select range_hash, recipe_hash, session_id, request from store.requests
where queue = :queue and (error is null or retry_at <= now()) and not exists (
    select 1 from store.claims
    where claims.range_hash = requests.range_hash and claims.recipe_hash = requests.recipe_hash
    and claims.until > clock_timestamp() and store.lives(claims.writer)
)
order by asked_at limit :most for update skip locked;

-- find_error: of a request that waits; no row where none does
select error from store.requests where range_hash = :range_hash and recipe_hash = :recipe_hash;

-- note_error: of a request, which is tried again after the next of these seconds, if there is one
update store.requests set error = :error, failures = failures + 1, retry_at = clock_timestamp()
+ make_interval(secs => (cast(:waits as double precision[]))[failures + 1])
where range_hash = :range_hash and recipe_hash = :recipe_hash;

-- remove_request: it is answered
delete from store.requests where range_hash = :range_hash and recipe_hash = :recipe_hash;

-- lock_request: it stands until the transaction ends
select 1 from store.requests where range_hash = :range_hash and recipe_hash = :recipe_hash for update;

-- lock_asker: a session stands until the transaction ends
select 1 from store.sessions where session_id = :session_id for key share;

-- remove_requests: of one session
delete from store.requests where session_id = :session_id;

-- remove_failed_requests: no host asks for them any longer, and they are not tried again
delete from store.requests where error is not null and retry_at is null;

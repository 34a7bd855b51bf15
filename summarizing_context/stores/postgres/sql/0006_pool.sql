-- Requests for summaries that workers of a pool make, and the caps on calls that hold for all workers.

create table store.requests (
    range_hash text not null,
    recipe_hash text not null,
    session_id text not null, -- that asked first
    queue text not null, -- whose workers make it
    number uuid not null default gen_random_uuid(), -- of its job; another one when it is asked again after a failure
    request bytea not null, -- what is asked of a model, redacted
    error text, -- why the last attempt failed; who asked decides whether to ask again
    asked_at timestamptz not null default clock_timestamp(),
    primary key (range_hash, recipe_hash)
);
create index requests_by_session on store.requests (session_id);

create table store.fleet (
    single boolean primary key default true check (single), -- one row
    calls_at_once bigint, -- null: no cap
    calls_per_minute bigint
);
insert into store.fleet default values;

create table store.calls (
    id bigint generated always as identity primary key,
    writer text not null, -- whose lease must hold, or the call has ended
    began timestamptz not null default clock_timestamp(),
    ended boolean not null default false
);
create index calls_by_time on store.calls (began);

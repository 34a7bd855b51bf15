-- Requests that failed are tried again, whether who asked is still there or not.

alter table store.requests
    add column failures bigint not null default 0, -- since somebody asked last
    add column retry_at timestamptz; -- null: it waits, or is not tried again unless somebody asks

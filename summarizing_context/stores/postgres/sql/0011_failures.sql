-- Failures: how many summaries of a session were given up, and what went wrong last, so that others can see it.

alter table store.sessions
    add column failed bigint not null default 0,
    add column last_error text,
    add column last_error_at text;

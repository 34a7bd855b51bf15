-- Failures: how many summaries of a session were given up, and what went wrong last, so that others can see it.

alter table sessions add column failed integer not null default 0;
alter table sessions add column last_error text;
alter table sessions add column last_error_at text;

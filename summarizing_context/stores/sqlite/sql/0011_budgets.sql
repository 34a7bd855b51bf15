-- Budgets: how many tokens the last request of a session could use, so that a look at the session need not be told.

alter table sessions add column budget integer;

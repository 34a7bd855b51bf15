-- Budgets: how many tokens the last request of a session could use.

alter table store.sessions add column budget bigint;

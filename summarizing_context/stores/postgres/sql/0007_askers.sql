-- Every session that asks for a summary, so that deleting one leaves the request to the others.

alter table store.requests add column others text[] not null default '{}'; -- that asked too, in order

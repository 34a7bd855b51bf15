-- Who pays for a summary now: one host asks a model for a key, and the others wait for what it gets.

create table store.claims (
    range_hash text not null,
    recipe_hash text not null,
    writer text not null, -- whose lease must hold, or the claim is void
    until timestamptz not null, -- its deadline
    wanted boolean not null default false, -- another host waits
    primary key (range_hash, recipe_hash)
);

-- What `migrate` has taken over is told by what it is, not by the name of its file.

alter table store.sessions add column origin bytea; -- the digest of the session in its file; null: it began here

create table store.migrated_memories (
    origin bytea primary key, -- names the memory in its file
    number bigint not null -- its number here, also where it was forgotten since
);

drop table store.migrated;

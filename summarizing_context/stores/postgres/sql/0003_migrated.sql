-- What `migrate` has taken over from SQLite files, and under which number, so that it goes on where it was.

create table store.migrated (
    source text not null, -- names the file
    kind text not null, -- branch, state, checkpoint, memory, session, marks
    old text not null,
    new bigint not null,
    primary key (source, kind, old)
);

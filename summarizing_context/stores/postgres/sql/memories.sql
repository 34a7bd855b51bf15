-- The queries about memories and vectors, each under its name and purpose.
-- A memory is in scope by its project, or, where there is none, by its session.

-- guard_memories: nobody else keeps memories of this scope until the transaction ends
select pg_advisory_xact_lock(hashtextextended(coalesce('project ' || cast(:project as text), 'session ' || :session_id), 7));

-- add_memory: one
insert into store.memories (project, session_id, content, metadata, created_at, updated_at)
values (:project, :session_id, :content, :metadata, :now, :now) returning id;

-- same_memory: one of this content, in scope
select id from store.memories where content = :content and project is not distinct from cast(:project as text)
and (project is not null or session_id = :session_id);

-- memory: one in scope
select id, content, metadata, created_at, updated_at from store.memories
where id = cast(:id as bigint) and project is not distinct from cast(:project as text)
and (project is not null or session_id = :session_id);

-- memories: all in scope, or in the store, oldest first
select id, content, metadata, created_at, updated_at from store.memories
where cast(:everything as boolean) or (project is not distinct from cast(:project as text)
and (project is not null or session_id = :session_id)) order by id;

-- update_memory: its content and metadata
update store.memories set content = :content, metadata = :metadata, updated_at = :now where id = :id;

-- remove_memory: one
delete from store.memories where id = :id;

-- index_memory: its words
update store.memories set words = to_tsvector('store.plain', :content) where id = :id;

-- unindex_memory: its words go with it
select 1;

-- match_memories: those in scope, or in the store, that hold any of the words, by relevance
select id, content, metadata, created_at, updated_at
from store.memories, websearch_to_tsquery('store.plain', :match) as query
where words @@ query
and (cast(:everything as boolean) or (project is not distinct from cast(:project as text)
    and (project is not null or session_id = :session_id)))
order by ts_rank('{1,1,1,1}', words, query, 1) desc, id limit :most;

-- memories_of_subject: those in scope that are about the same, or that choose of the same, newest first
select id, content, metadata, created_at, updated_at from store.memories
where project is not distinct from cast(:project as text) and (project is not null or session_id = :session_id)
and (
    cast(metadata as json) ->> 'choice' = cast(:choice as text)
    or cast(metadata as json) ->> 'subject' = cast(:subject as text)
    and (cast(:relation as text) is null
        or coalesce(cast(metadata as json) ->> 'relation', cast(:relation as text)) = cast(:relation as text))
)
order by updated_at desc, id desc;

-- memories_of_message: those that a session was taught by one of its messages
select id, content, metadata, created_at, updated_at from store.memories
where project is not distinct from cast(:project as text) and (project is not null or session_id = :session_id)
and cast(metadata as json) ->> 'session_id' = :session_id
and cast(metadata as json) ->> 'message' = cast(cast(:message as bigint) as text);

-- add_mark: one
insert into store.memory_marks (mark, reader, project, session_id) values (:mark, :reader, :project, :session_id);

-- marked: which of the marks, a JSON list, are there in scope
select distinct mark from jsonb_array_elements_text(cast(:marks as jsonb)) as asked
join store.memory_marks on mark = asked and reader = :reader
where project is not distinct from cast(:project as text) and (project is not null or session_id = :session_id);

-- remove_own_marks: of a session without a project
delete from store.memory_marks where session_id = :session_id and project is null;

-- disown_marks: the session that made them is about to go
update store.memory_marks set session_id = null where session_id = :session_id;

-- own_memories: of a session without a project
select id, content from store.memories where session_id = :session_id and project is null;

-- disown_memories: the session that stored them is about to go
update store.memories set session_id = null where session_id = :session_id;

-- missing_vectors: which of the numbers, a JSON list, have none of a recipe and of so many bytes
select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) with ordinality as list (asked, at)
where not exists (
    select 1 from store.vectors where owner = :owner and number = cast(asked as bigint) and recipe = :recipe
    and octet_length(vector) = :size
) order by at;

-- save_vector: keep it; an older one of the same text is replaced
insert into store.vectors (owner, number, recipe, vector) values (:owner, :number, :recipe, :vector)
on conflict (owner, number, recipe) do update set vector = excluded.vector;

-- vectors_of: those of the numbers, a JSON list
select number, vector from store.vectors where owner = :owner and recipe = :recipe
and number in (select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) as asked);

-- drop_vectors: those of the numbers, a JSON list, of one recipe
delete from store.vectors where owner = :owner and recipe = :recipe
and number in (select cast(asked as bigint) from jsonb_array_elements_text(cast(:numbers as jsonb)) as asked);

-- remove_vector: of one text
delete from store.vectors where owner = :owner and number = :number;

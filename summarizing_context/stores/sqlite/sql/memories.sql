-- The queries about memories and vectors, each under its name and purpose; `queries.py` reads them.
-- A memory is in scope by its project, or, where there is none, by its session.

-- guard_memories: nobody else keeps memories until the transaction ends; in SQLite it is the only one that writes
select 1;

-- add_memory: one
insert into memories (project, session_id, content, metadata, created_at, updated_at)
values (:project, :session_id, :content, :metadata, :now, :now);

-- same_memory: one of this content, in scope
select id from memories where content = :content and project is :project
and (project is not null or session_id = :session_id);

-- memory: one in scope
select id, content, metadata, created_at, updated_at from memories where id = :id and project is :project
and (project is not null or session_id = :session_id);

-- memories: all in scope, or in the store, oldest first
select id, content, metadata, created_at, updated_at from memories where :everything or (project is :project
and (project is not null or session_id = :session_id)) order by id;

-- update_memory: its content and metadata
update memories set content = :content, metadata = :metadata, updated_at = :now where id = :id;

-- remove_memory: one
delete from memories where id = :id;

-- index_memory: its words
insert into memory_words (rowid, content) values (:id, spaced(:content));

-- unindex_memory: its words, as they were indexed
insert into memory_words (memory_words, rowid, content) values ('delete', :id, spaced(:content));

-- tidy_memories: merge the parts of their index, so that words of what was removed are in none of them
insert into memory_words (memory_words) values ('optimize');

-- match_memories: those in scope, or in the store, that hold any of the words, by relevance
select id, memories.content, metadata, created_at, updated_at from memory_words
join memories on memories.id = memory_words.rowid
where memory_words match :match
and (:everything or (project is :project and (project is not null or session_id = :session_id)))
order by bm25(memory_words) limit :most;

-- memories_of_subject: those in scope that are about the same, or that choose of the same, newest first
select id, content, metadata, created_at, updated_at from memories where project is :project
and (project is not null or session_id = :session_id)
and (
    json_extract(metadata, '$.choice') = :choice
    or json_extract(metadata, '$.subject') = :subject
    and (:relation is null or coalesce(json_extract(metadata, '$.relation'), :relation) = :relation)
)
order by updated_at desc, id desc;

-- memories_of_message: those that a session was taught by one of its messages
select id, content, metadata, created_at, updated_at from memories where project is :project
and (project is not null or session_id = :session_id) and json_extract(metadata, '$.session_id') = :session_id
and json_extract(metadata, '$.message') = :message;

-- add_mark: one
insert into memory_marks (mark, reader, project, session_id) values (:mark, :reader, :project, :session_id);

-- marked: which of the marks, a JSON list, are there in scope
select distinct mark from json_each(:marks) as asked join memory_marks on mark = asked.value and reader = :reader
where project is :project and (project is not null or session_id = :session_id);

-- remove_own_marks: of a session without a project
delete from memory_marks where session_id = :session_id and project is null;

-- disown_marks: the session that made them is about to go
update memory_marks set session_id = null where session_id = :session_id;

-- own_memories: of a session without a project
select id, content from memories where session_id = :session_id and project is null;

-- disown_memories: the session that stored them is about to go
update memories set session_id = null where session_id = :session_id;

-- missing_vectors: which of the numbers, a JSON list, have none of a recipe and of so many bytes
select asked.value from json_each(:numbers) as asked where not exists (
    select 1 from vectors where owner = :owner and number = asked.value and recipe = :recipe and length(vector) = :size
);

-- save_vector: keep it; an older one of the same text is replaced
insert into vectors (owner, number, recipe, vector) values (:owner, :number, :recipe, :vector)
on conflict (owner, number, recipe) do update set vector = excluded.vector;

-- vectors_of: those of the numbers, a JSON list, each looked up ("cross": left to choose, SQLite compares all with all)
select number, vector from json_each(:numbers) as asked
cross join vectors on owner = :owner and number = asked.value and recipe = :recipe;

-- drop_vectors: those of the numbers, a JSON list, of one recipe
delete from vectors where owner = :owner and recipe = :recipe and number in (select value from json_each(:numbers));

-- remove_unnamed_vectors: what embeddings without a name left behind when their process was killed
delete from vectors where recipe glob 'unnamed *' or recipe glob 'chroma * unnamed *';

-- remove_vector: of one text
delete from vectors where owner = :owner and number = :number;

-- remove_row_vectors: of a branch's entries, from a position on
delete from vectors where owner = 'row' and number >= (:branch << 32) + :stop and number < ((:branch + 1) << 32);

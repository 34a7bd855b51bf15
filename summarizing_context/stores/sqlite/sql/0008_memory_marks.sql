-- What of the logs was read for memories, so that nothing is read twice and what was forgotten stays so.
-- In scope as memories are: by project, or, where there is none, by session.
create table memory_marks (
    mark text not null, -- names the content that was read
    reader text not null, -- a model, or rules
    project text,
    session_id text -- that read it; null once that is deleted
);
create index memory_marks_by_mark on memory_marks (mark, reader);

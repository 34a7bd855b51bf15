-- Words of scripts without spaces between them: letters of Chinese, Japanese, Thai and others are indexed one by one.
--
-- All is indexed anew, messages and summaries behind the log, as after 0003.

insert into search (search) values ('delete-all');
update branches set indexed = 0;
update search_progress set summaries = 0;

insert into memory_words (memory_words) values ('delete-all');
insert into memory_words (rowid, content) select id, spaced(content) from memories;

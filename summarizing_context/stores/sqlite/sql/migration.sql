-- What a migration reads of a file, each query under its name and purpose.

-- file_sessions: the oldest change first
select session_id, branch, created_at from sessions order by updated_at, session_id;

-- file_heads: of sessions and of their checkpoints
select session_id, branch from sessions union select session_id, branch from checkpoints;

-- file_branches: parents first
select id, parent from branches order by id;

-- branch_owner: the session that began a branch
select session_id from branches where id = :branch;

-- state: of a checkpoint, as it is packed
select digest, state, base, depth from checkpoint_states where id = :id;

-- summaries_of_session: whole
select range_hash, recipe_hash, text, rank, input_tokens, output_tokens from summary_uses
join summaries using (range_hash, recipe_hash) where session_id = :session_id;

-- summaries_after: a slice of all
select id, range_hash, recipe_hash, text, rank, input_tokens, output_tokens
from summaries where id > :after order by id limit :most;

-- memories_after: a slice of all
select id, project, session_id, content, metadata, created_at, updated_at
from memories where id > :after order by id limit :most;

-- all_marks: of what was read for memories
select mark, reader, project, session_id from memory_marks;

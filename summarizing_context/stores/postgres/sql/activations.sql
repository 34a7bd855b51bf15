-- The queries about activations, each under its name and purpose.

-- add_to_history: an activation of the present log
insert into store.activation_history (session_id, number, provider_key, log_version, figures, before)
select cast(:session_id as text), :number, :provider_key, log_version, :figures, cast(:before as bytea)
from store.sessions where session_id = :session_id
on conflict (session_id, number) do nothing;

-- note_undone: an activation was taken back
update store.activation_history set undone = 1 where session_id = :session_id and number = :number;

-- thin_history: of all but the newest activations the states before them go
update store.activation_history set before = null
where session_id = :session_id and number <= :number - :keep and before is not null;

-- history: of a session, oldest first
select number, provider_key, log_version, figures, before is not null, undone
from store.activation_history where session_id = :session_id order by number;

-- state_before: one activation
select before from store.activation_history where session_id = :session_id and number = :number;

-- remove_history: of a session
delete from store.activation_history where session_id = :session_id;

-- forget_replaced_states: those of logs that were replaced
update store.activation_history set before = null where before is not null and log_version <> (
    select log_version from store.sessions where sessions.session_id = activation_history.session_id
);

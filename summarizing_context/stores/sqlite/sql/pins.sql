-- The queries about pins, each under its name and purpose; `queries.py` reads them.

-- pins: of a session
select pins from sessions where session_id = :session_id;

-- save_pins: in the place of those a session had
update sessions set pins = :pins where session_id = :session_id;

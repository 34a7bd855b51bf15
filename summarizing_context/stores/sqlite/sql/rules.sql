-- The queries about standing rules, each under its name and purpose; `queries.py` reads them.

-- add_rules: of a message; the first message of the same bytes counts
insert or ignore into rules (session_id, digest, version, position, rules) values (?, ?, ?, ?, ?);

-- rules: of a session, in the order of its log
select digest, version, rules from rules where session_id = :session_id order by position, version;

-- copy_rules: into a fork, of the messages that it has from the present log
insert into rules (session_id, digest, version, position, rules)
select :fork, digest, version, position, rules from rules where session_id = :session_id and position < :stop;

-- forget_rules: of the messages from a place on
delete from rules where session_id = :session_id and position >= :keep;

-- Standing rules: what was read of each message that a human wrote, kept beside the log. The store does not look into
-- them. A message without a row of the version that a process reads by is read again when its session is opened.
create table rules (
    session_id text not null,
    digest blob not null, -- names a message by its bytes
    version text not null, -- of how its rules were read
    position integer not null, -- of the first such message in the log
    rules blob not null,
    primary key (session_id, digest, version)
) without rowid;

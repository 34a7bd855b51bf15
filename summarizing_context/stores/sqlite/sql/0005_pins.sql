-- Pins: what a session has pinned by calls, and what it had at each checkpoint. The store does not look into them.

alter table sessions add column pins text not null default '';
alter table checkpoints add column pins text not null default '';

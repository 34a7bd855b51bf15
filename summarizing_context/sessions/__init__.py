"""One session: its log and its store kept in step, and what it tells of itself.

`session` adds messages and makes views; `checkpoints` go back; `statistics` and `announcements` tell.
"""

"""The log in memory: `entries` with their groups and segments, and the `message_log` with what it is read for.

The log is the truth of a session and is never edited by compaction. It calls no view, no summarizer and no store.
"""

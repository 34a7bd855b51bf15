"""The log in memory: `entries`, `groups`, the `tree` of segments, and what it is searched for as it grows.

The log is the truth of a session and is never edited by compaction. It knows no view, no summarizer and no store.
"""

"""The log in memory: entries, groups, segments, digests and the summary tree.

The log is the truth of a session and is never edited by compaction. It knows no view, no summarizer and no store.
"""

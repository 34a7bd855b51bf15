"""Things that turn a job into a summary: one file for each kind, and the pure parts of the extractive one."""

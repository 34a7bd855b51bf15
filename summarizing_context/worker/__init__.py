"""The background worker: which summaries are missing, jobs for them, and their cache. It yields to the host's calls."""

"""Where logs and summaries are kept."""

"""One session: its log and its store kept in step, its views, checkpoints and pins, and what it tells of itself."""

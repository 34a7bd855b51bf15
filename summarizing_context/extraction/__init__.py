"""Facts that are read from text without a model, by word lists in files beside them: pure, and without the log."""

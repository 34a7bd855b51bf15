"""The extractive summarizer: the default, without a key and without a network. Pure and deterministic."""

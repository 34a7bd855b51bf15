"""Retrieval: search, expand, recall, memories and embeddings; all that brings back what a view does not show."""

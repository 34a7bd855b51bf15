"""Retrieval: search, expand, recall, memories and embeddings.

Everything that brings back what a view does not show.
"""

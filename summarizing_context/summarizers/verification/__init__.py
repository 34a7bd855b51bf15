"""Verification: whether a model's reply can serve, and what of it its source bears out."""

"""Reports of a run: JSON for machines, Markdown for reviews, one HTML page for people.

Nothing is imported here: `files` writes them, `page` and `charts` draw, `summary` computes.
"""

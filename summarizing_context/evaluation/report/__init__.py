"""Reports of a run: JSON for machines, Markdown for reviews, one HTML page for people.

Nothing is imported here: `files` writes them, `page` draws, `summary` computes.
"""

"""Reports of a run: JSON for machines, Markdown for reviews, one HTML page for people.

Nothing is imported here: `writing` writes all of them, each is made in the module that bears its name.
"""

"""Answers of real models to questions about real sessions: recorded, judged blind, and replayed offline.

`recording` holds the files, `rendering` shows messages to a reader, `views` gives our views, `arms` all others at equal
tokens. `recorder` asks models through an API; `scores` adds up the marks, `report` shows them. No figure uses a
detector of the product.
"""

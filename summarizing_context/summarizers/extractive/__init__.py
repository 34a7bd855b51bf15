"""The extractive summarizer: the default, without a key and without a network.

Pure and deterministic. `summarizer` is the door; `summaries` makes summaries of the lines that the others find and
rank.
"""

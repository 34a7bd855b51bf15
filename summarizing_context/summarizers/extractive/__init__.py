"""The extractive summarizer: the default, without a key and without a network.

Pure and deterministic. `summarizer` is the door; the other modules fill one section each.
"""

"""Cassettes: recorded requests to models and their replies, so that evals with a model run offline.

`cassette` replays and records, `files` reads and writes the file, `requests` holds the values.
"""

from summarizing_context.evaluation.cassettes.cassette import Cassette, CassetteSummarizer, Mode
from summarizing_context.evaluation.cassettes.requests import Caps, Reply, Request, Spent

__all__ = ["Caps", "Cassette", "CassetteSummarizer", "Mode", "Reply", "Request", "Spent"]

"""Cassettes: what models were asked and what they answered, recorded once, so that evals with a model run offline.

`tape` holds a cassette in use, `files` reads and writes it, `summaries` puts a summarizer behind one.
"""

from summarizing_context.evaluation.cassettes.requests import Caps, Reply, Request, Spent
from summarizing_context.evaluation.cassettes.tape import Cassette, CassetteSummarizer, Mode

__all__ = ["Caps", "Cassette", "CassetteSummarizer", "Mode", "Reply", "Request", "Spent"]

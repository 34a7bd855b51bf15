"""Summarizers: what turns a job into a summary, and what checks and limits them.

One module for each provider (`openai`, `anthropic`, `host`), `extractive/` without a model, `resilience` for retries
and limits, `verification/` for what a model wrote.
"""

from summarizing_context.summarizers.base import Summarizer, SummaryJob, SummaryReply

__all__ = ["Summarizer", "SummaryJob", "SummaryReply"]

"""Summarizers: what turns a job into a summary, and what checks and limits them.

One module for each provider (`openai`, `anthropic`, `host`), `extractive/` without a model, `resilience` for retries
and limits, `verification/` for what a model wrote.
"""

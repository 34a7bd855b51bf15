"""Summarizers: what turns a job into a summary, and what checks and limits them.

`sdk` and `host` ask models, `extractive` none; `resilience` retries and limits, `verification` checks replies.
"""

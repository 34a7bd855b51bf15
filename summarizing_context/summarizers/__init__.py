"""Summarizers: what turns a job into a summary, and what checks and limits them.

`sdk` and `host` ask models, `extractive/` asks none; `resilience` retries and limits, `verification` checks what a
model wrote.
"""

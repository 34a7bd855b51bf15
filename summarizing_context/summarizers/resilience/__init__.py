"""Limits around a summarizer: retries, time limits, a circuit breaker, caps on calls and tokens."""

"""Summaries by real SDKs: against respx, and against a provider server on the loopback."""

"""The providers of summaries by the names that settings give them: add one here, and its class in `summarizers`."""

from __future__ import annotations

from collections.abc import Mapping

PROVIDERS: Mapping[str, str] = {  # name -> module and class, imported when a context is opened with it
    "openai": "summarizing_context.summarizers.openai:OpenAIChatSummarizer",
    "anthropic": "summarizing_context.summarizers.anthropic:AnthropicSummarizer",
}

SUMMARIZERS = ("extractive", *PROVIDERS, "host")

NAMED = " or ".join(", ".join(PROVIDERS).rsplit(", ", 1))  # in messages

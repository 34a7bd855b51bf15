"""Summaries by a chat model of LangChain's."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage

from summarizing_context.summarizers.base import SummaryJob, SummaryReply

_CUT_OFF = ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens")


class ChatModelSummarizer:
    """Asks the model for each job. Whatever it raises is a failed attempt."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model
        self.recipe = f"langchain/{type(model).__name__}/{model_name(model) or 'default'}"

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        reply = await self._model.ainvoke([SystemMessage(job.instructions), HumanMessage(job.content)])
        usage: Any = reply.usage_metadata or {}
        told = reply.response_metadata
        return SummaryReply(
            str(reply.text),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            truncated=(told.get("finish_reason") or told.get("stop_reason")) in _CUT_OFF,
            cached_tokens=(usage.get("input_token_details") or {}).get("cache_read"),
        )


def model_name(model: BaseChatModel) -> str:
    """The name that a provider knows the model by; empty where it has none."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")

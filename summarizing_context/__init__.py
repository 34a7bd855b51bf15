"""Keeps long agent sessions inside the model's window: background summaries, views that never wait.

`open_context(Settings(...))` opens a session; `mount` attaches one to Microsoft Amplifier.

Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from summarizing_context import errors
from summarizing_context.errors import *  # noqa: F403

if TYPE_CHECKING:
    from summarizing_context.adapters.amplifier import mount as mount
    from summarizing_context.adapters.amplifier import on_session_ready as on_session_ready
    from summarizing_context.assembly import open_context as open_context
    from summarizing_context.assembly import open_store as open_store
    from summarizing_context.commands import CommandResult as CommandResult
    from summarizing_context.concurrency import BlockingContext as BlockingContext
    from summarizing_context.context import SummarizingContext as SummarizingContext
    from summarizing_context.log.message_log import Fact as Fact
    from summarizing_context.log.message_log import OpenCall as OpenCall
    from summarizing_context.log.message_log import Pin as Pin
    from summarizing_context.log.message_log import Plan as Plan
    from summarizing_context.log.message_log import StandingRule as StandingRule
    from summarizing_context.messages.reading import message_text_parts as message_text_parts
    from summarizing_context.models import load_models as load_models
    from summarizing_context.retrieval.pages import Page as Page
    from summarizing_context.retrieval.search import Memory as Memory
    from summarizing_context.retrieval.search import MemoryEntry as MemoryEntry
    from summarizing_context.retrieval.tools import compact_tool_schema as compact_tool_schema
    from summarizing_context.retrieval.tools import memory_tool_schemas as memory_tool_schemas
    from summarizing_context.retrieval.tools import recall_tool_schema as recall_tool_schema
    from summarizing_context.sessions.session import BudgetReport as BudgetReport
    from summarizing_context.sessions.session import CacheFigures as CacheFigures
    from summarizing_context.sessions.session import FollowReport as FollowReport
    from summarizing_context.sessions.session import Statistics as Statistics
    from summarizing_context.settings import LedgerRule as LedgerRule
    from summarizing_context.settings import Settings as Settings
    from summarizing_context.stores.base import Checkpoint as Checkpoint
    from summarizing_context.stores.base import SearchHit as SearchHit
    from summarizing_context.summarizers.base import SummaryJob as SummaryJob
    from summarizing_context.summarizers.base import SummaryReply as SummaryReply
    from summarizing_context.views.builder import View as View
    from summarizing_context.views.view import ActivationRecord as ActivationRecord
    from summarizing_context.views.view import ActivationReport as ActivationReport
    from summarizing_context.worker.summary_cache import HeaderNode as HeaderNode

_HOMES = {  # modules whose names are loaded when they are first used
    "adapters.amplifier": "mount on_session_ready",
    "assembly": "open_context open_store",
    "commands": "CommandResult",
    "concurrency": "BlockingContext",
    "context": "SummarizingContext",
    "log.message_log": "Fact OpenCall Pin Plan StandingRule",
    "messages.reading": "message_text_parts",
    "models": "load_models",
    "retrieval.search": "Memory MemoryEntry",
    "retrieval.pages": "Page",
    "retrieval.tools": "compact_tool_schema memory_tool_schemas recall_tool_schema",
    "sessions.session": "BudgetReport CacheFigures FollowReport Statistics",
    "settings": "LedgerRule Settings",
    "stores.base": "Checkpoint SearchHit",
    "summarizers.base": "SummaryJob SummaryReply",
    "views.builder": "View",
    "views.view": "ActivationRecord ActivationReport",
    "worker.summary_cache": "HeaderNode",
}
_LAZY = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted([*_LAZY, *(name for name in dir(errors) if name.startswith("Summarizer") or name.endswith("Error"))])


def __getattr__(name: str) -> Any:
    if name == "transcripts":  # a room that users call by its own name
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Keeps long agent sessions inside the model's window: background summaries, views that never wait.

`open_context(Settings(...))` opens a session; `mount` attaches one to Microsoft Amplifier.

Names are loaded when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from summarizing_context.errors import (
    BudgetError,
    CassetteError,
    CassetteLimitError,
    CassetteMissError,
    CheckpointNotFoundError,
    ContextClosedError,
    DamagedMessageError,
    MemoryNotFoundError,
    MessageError,
    MissingExtraError,
    NodeNotFoundError,
    PinNotFoundError,
    PromptError,
    SessionExistsError,
    SessionInUseError,
    SessionLostError,
    SettingsError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreUnreachableError,
    StoreVersionError,
    SummarizerError,
    SummarizerNotReady,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
    SummarizingContextError,
    TranscriptError,
    UndoError,
    WrongEventLoopError,
)

if TYPE_CHECKING:
    from summarizing_context.adapters.amplifier import mount, on_session_ready
    from summarizing_context.assembly import open_context
    from summarizing_context.commands import CommandResult
    from summarizing_context.context import SummarizingContext
    from summarizing_context.log.kept_texts import Plan
    from summarizing_context.log.ledger import Fact
    from summarizing_context.log.message_log import OpenCall
    from summarizing_context.log.pins import Pin
    from summarizing_context.log.rules import StandingRule
    from summarizing_context.messages.reading import message_text_parts
    from summarizing_context.retrieval.memory import Memory, MemoryEntry
    from summarizing_context.retrieval.pages import Page
    from summarizing_context.retrieval.tools import memory_tool_schemas, recall_tool_schema
    from summarizing_context.sessions.follower import FollowReport
    from summarizing_context.sessions.statistics import BudgetReport, Statistics
    from summarizing_context.settings.ledger_rules import LedgerRule
    from summarizing_context.settings.values import Settings
    from summarizing_context.stores.base import Checkpoint, SearchHit
    from summarizing_context.summarizers.base import SummaryJob, SummaryReply
    from summarizing_context.views.activation import ActivationRecord, ActivationReport
    from summarizing_context.views.view import View

__all__ = [
    "ActivationRecord",
    "ActivationReport",
    "BudgetError",
    "BudgetReport",
    "CassetteError",
    "CassetteLimitError",
    "CassetteMissError",
    "Checkpoint",
    "CheckpointNotFoundError",
    "CommandResult",
    "ContextClosedError",
    "DamagedMessageError",
    "Fact",
    "FollowReport",
    "LedgerRule",
    "Memory",
    "MemoryEntry",
    "MemoryNotFoundError",
    "MessageError",
    "MissingExtraError",
    "NodeNotFoundError",
    "OpenCall",
    "Page",
    "Pin",
    "PinNotFoundError",
    "Plan",
    "PromptError",
    "SearchHit",
    "SessionExistsError",
    "SessionInUseError",
    "SessionLostError",
    "Settings",
    "SettingsError",
    "StandingRule",
    "Statistics",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreReadOnlyError",
    "StoreUnreachableError",
    "StoreVersionError",
    "SummarizerError",
    "SummarizerNotReady",
    "SummarizerRateLimited",
    "SummarizerRefused",
    "SummarizerTimeout",
    "SummarizingContext",
    "SummarizingContextError",
    "SummaryJob",
    "SummaryReply",
    "TranscriptError",
    "UndoError",
    "View",
    "WrongEventLoopError",
    "memory_tool_schemas",
    "message_text_parts",
    "mount",
    "on_session_ready",
    "open_context",
    "recall_tool_schema",
]

_HOMES = {  # where the names stand that are loaded when they are first used
    "ActivationRecord": "views.activation",
    "ActivationReport": "views.activation",
    "BudgetReport": "sessions.statistics",
    "Checkpoint": "stores.base",
    "CommandResult": "commands",
    "Fact": "log.ledger",
    "FollowReport": "sessions.follower",
    "LedgerRule": "settings.ledger_rules",
    "Memory": "retrieval.memory",
    "MemoryEntry": "retrieval.memory",
    "Page": "retrieval.pages",
    "OpenCall": "log.message_log",
    "Pin": "log.pins",
    "Plan": "log.kept_texts",
    "SearchHit": "stores.base",
    "Settings": "settings.values",
    "StandingRule": "log.rules",
    "Statistics": "sessions.statistics",
    "SummarizingContext": "context",
    "SummaryJob": "summarizers.base",
    "SummaryReply": "summarizers.base",
    "View": "views.view",
    "memory_tool_schemas": "retrieval.tools",
    "message_text_parts": "messages.reading",
    "mount": "adapters.amplifier",
    "on_session_ready": "adapters.amplifier",
    "open_context": "assembly",
    "recall_tool_schema": "retrieval.tools",
}


def __getattr__(name: str) -> Any:
    if name == "transcripts":  # a room that users call by its own name
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

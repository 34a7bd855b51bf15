"""Keeps long agent sessions inside the model's window: background summaries, views that never wait.

`open_context(Settings(...))` opens a session; `mount` attaches one to Microsoft Amplifier.
"""

from summarizing_context.adapters.amplifier import mount, on_session_ready
from summarizing_context.assembly import open_context
from summarizing_context.commands import CommandResult
from summarizing_context.context import SummarizingContext
from summarizing_context.core.activation import ActivationReport
from summarizing_context.core.facts import Fact
from summarizing_context.core.ledger_rules import LedgerRule
from summarizing_context.core.messages import message_text_parts
from summarizing_context.core.paging import Page
from summarizing_context.core.pinned import Pin
from summarizing_context.core.view import View
from summarizing_context.errors import (
    BudgetError,
    CassetteError,
    CassetteLimitError,
    CassetteMissError,
    CheckpointNotFoundError,
    ContextClosedError,
    MemoryNotFoundError,
    MessageError,
    MissingExtraError,
    NodeNotFoundError,
    PinNotFoundError,
    PromptError,
    SessionExistsError,
    SessionInUseError,
    SettingsError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    StoreVersionError,
    SummarizerError,
    SummarizerNotReady,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerTimeout,
    SummarizingContextError,
    TranscriptError,
    WrongEventLoopError,
)
from summarizing_context.memories import Memory, MemoryEntry
from summarizing_context.memory_tools import memory_tool_schemas
from summarizing_context.ports import SummaryJob, SummaryReply
from summarizing_context.recall_tool import recall_tool_schema
from summarizing_context.settings import Settings
from summarizing_context.shelves import Checkpoint, SearchHit
from summarizing_context.spending import BudgetReport
from summarizing_context.statistics import Statistics

__all__ = [
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
    "Fact",
    "LedgerRule",
    "Memory",
    "MemoryEntry",
    "MemoryNotFoundError",
    "MessageError",
    "MissingExtraError",
    "NodeNotFoundError",
    "Page",
    "Pin",
    "PinNotFoundError",
    "PromptError",
    "SearchHit",
    "SessionExistsError",
    "SessionInUseError",
    "Settings",
    "SettingsError",
    "Statistics",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreReadOnlyError",
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
    "View",
    "WrongEventLoopError",
    "memory_tool_schemas",
    "message_text_parts",
    "mount",
    "on_session_ready",
    "open_context",
    "recall_tool_schema",
]

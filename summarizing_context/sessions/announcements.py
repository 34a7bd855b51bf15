"""What a session tells: events to an observer, and a line in the log for each activation and each summary."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from summarizing_context.concurrency import Events

logger = logging.getLogger("summarizing_context")  # one name for all sessions, as the documents give it

Notify = Callable[[str, dict[str, Any]], None]
Announce = Callable[[dict[str, Any]], Awaitable[None]]


def make_notify(events: Events | None, session_id: str) -> Notify:
    """What logs an event and hands it to the observer; a fault of the observer costs nothing but the event."""

    def notify(name: str, data: dict[str, Any]) -> None:
        if logger.isEnabledFor(logging.INFO) and (line := _line(name, data)):
            logger.info("%s: %s", session_id, line)
        if events is not None:
            try:
                events.emit(name, data)
            except Exception as error:
                logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})

    return notify


def _line(name: str, data: Mapping[str, Any]) -> str:
    """The line in the log for an event; empty where it has none."""
    if name == "activation":
        return (
            f"activation ({data['reason']}) in {data['duration']:.3f} s: {data['tokens_before']} tokens to "
            f"{data['tokens_after']}, {data['messages']} messages, {data['header_blocks']} summaries, "
            f"{data['stand_ins']} stand-ins"
        )
    if name not in ("summary_ready", "summary_failed"):
        return ""
    summary = f"summary {data['range_hash'][:8]} of rank {data['rank']}"
    if name == "summary_failed":
        return f"{summary} failed after {data['duration']:.3f} s: {data['error']}"
    tokens = f", {data['input_tokens']} tokens in, {data['output_tokens']} out" if data["made_by"] == "model" else ""
    return f"{summary} by {data['model'] or data['made_by']} in {data['duration']:.3f} s{tokens}"

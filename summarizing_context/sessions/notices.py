"""What a session tells: events to an observer, and a line in the log for each activation and each summary."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from summarizing_context.concurrency import Events

logger = logging.getLogger("summarizing_context")  # one name for all sessions, as the documents give it

Notify = Callable[[str, dict[str, Any]], None]


def make_notify(events: Events | None, session_id: str) -> Notify:
    """What logs an event and hands it to the observer; a fault of the observer costs nothing but the event."""

    def notify(name: str, data: dict[str, Any]) -> None:
        if name in _LINES and logger.isEnabledFor(logging.INFO):
            logger.info("%s: %s", session_id, _LINES[name](data))
        if events is not None:
            try:
                events.emit(name, data)
            except Exception as error:
                logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})

    return notify


def _activation(data: Mapping[str, Any]) -> str:
    return (
        f"activation ({data['reason']}) in {data['duration']:.3f} s: {data['tokens_before']} tokens to "
        f"{data['tokens_after']}, {data['messages']} messages, {data['header_blocks']} summaries, "
        f"{data['stand_ins']} stand-ins"
    )


def _summary_ready(data: Mapping[str, Any]) -> str:
    usage = f"{data['input_tokens']} tokens in, {data['output_tokens']} out"
    tokens = f", {usage}" if data["made_by"] == "model" else ""
    return f"summary {_named(data)} by {data['model'] or data['made_by']} in {data['duration']:.3f} s{tokens}"


def _summary_failed(data: Mapping[str, Any]) -> str:
    return f"summary {_named(data)} failed after {data['duration']:.3f} s: {data['error']}"


def _named(data: Mapping[str, Any]) -> str:
    return f"{data['range_hash'][:8]} of rank {data['rank']}"


_LINES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "activation": _activation,
    "summary_ready": _summary_ready,
    "summary_failed": _summary_failed,
}

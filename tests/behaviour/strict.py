"""What OpenAI and Anthropic refuse in a list of messages, in words of their own documentation. It reads plain rows and
shares no code with the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def calls_of(row: Row) -> list[str]:
    """The ids of the calls that a row makes."""
    listed = [call["id"] for call in row.get("tool_calls") or ()]
    return listed or [block["id"] for block in _blocks(row) if block["type"] in ("tool_use", "tool_call")]


def results_of(row: Row) -> list[str]:
    """The ids of the calls that a row answers."""
    if row["role"] == "tool":
        return [row["tool_call_id"]]
    return [block["tool_use_id"] for block in _blocks(row) if block["type"] == "tool_result"]


def refusals(rows: Sequence[Row]) -> list[str]:
    """Why a provider would refuse these rows; nothing where it would not.

    Each call is answered once before anything else follows, and no result stands elsewhere. Neighbouring rows of the
    user are one message to Anthropic: there all results have to open the message behind the calls.
    """
    problems: list[str] = []
    waiting: list[str] = []
    for at, row in enumerate(rows):
        results, calls = results_of(row), calls_of(row)
        if row["role"] not in ("system", "developer", "user", "assistant", "tool"):
            problems.append(f"row {at} has the role {row['role']}")
        if waiting and not results:
            problems.append(f"row {at} stands before the results of {waiting}")
            waiting = []
        for id in results:
            if id in waiting:
                waiting.remove(id)
            else:
                problems.append(f"row {at} answers {id}, which does not wait there")
        if results and any(block["type"] != "tool_result" for block in _blocks(row)) and waiting:
            problems.append(f"row {at} says more before the results of {waiting}")
        waiting = waiting + calls
    if waiting:
        problems.append(f"the messages end before the results of {waiting}")
    return problems


def _blocks(row: Row) -> list[Row]:
    return row["content"] if row["role"] != "tool" and isinstance(row.get("content"), list) else []

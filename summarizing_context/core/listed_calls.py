"""Calls as `tool_calls` lists them: OpenAI's, with a function or a custom tool inside, and those of other hosts.

Pure. How they stand beside blocks is known in `message_parts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from summarizing_context.core.door import Message, canonical_json
from summarizing_context.core.fields import Sent, odd_fields, without_odd


class ListedCall(NamedTuple):
    """What a listed call says."""

    name: str
    arguments: str
    odd: Sent  # what stands in fields that no call has


class _Places(NamedTuple):
    """Where it says it."""

    holder: str  # the field that holds the call; empty where it stands by itself
    inner: Mapping[str, Any]
    known: frozenset[str]
    name: str
    arguments: str


def read_listed_call(call: Mapping[str, Any]) -> ListedCall:
    """A call of the list, whatever its shape."""
    holder, inner, known, name, arguments = _places(call)
    odd = odd_fields(inner, known)
    if holder:
        outer = odd_fields(call, {"id", holder})
        odd = Sent(outer.texts + odd.texts, outer.sealed + odd.sealed)
    return ListedCall(str(inner.get(name) or ""), arguments_text(inner.get(arguments, {})), odd)


def bare_call(call: Mapping[str, Any]) -> Message:
    """A call of the list without the fields that no call has."""
    holder, inner, known, _, _ = _places(call)
    bare = without_odd(inner, known)
    return {**without_odd(call, {"id", holder}), holder: bare} if holder else bare


def arguments_text(arguments: object) -> str:
    """Arguments as a model wrote them, or as JSON."""
    return arguments if isinstance(arguments, str) else canonical_json(arguments)


def mean_the_same(one: str, other: str) -> bool:
    """Whether two texts of arguments hold the same, whatever the spelling of their JSON."""
    try:
        return one == other or bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def _places(call: Mapping[str, Any]) -> _Places:
    holder = next((key for key in ("function", "custom") if call.get(key) and isinstance(call[key], dict)), "")
    inner = call[holder] if holder else call
    name = "name" if inner.get("name") else "tool"
    arguments = next((key for key in ("arguments", "input", "args") if key in inner), "arguments")
    return _Places(holder, inner, frozenset({"id", name, arguments}), name, arguments)

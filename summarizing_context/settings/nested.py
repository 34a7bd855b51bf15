"""Settings that are written in groups, as in the JSON of other documents, by the settings' own flat names.

Pure. `context_management` may stand around all of them; `memory` and `semantic_memory` are groups of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from summarizing_context.settings.rules import shown, shown_name

WHOLE = "context_management"

_GROUPS: dict[str, dict[str, str]] = {  # the names in each, and what the settings call them
    "memory": {
        "include": "memory_include",
        "max_tokens": "memory_max_tokens",
        "extract": "memory_extract",
        "wait": "memory_wait",
    },
    "semantic_memory": {
        "enabled": "memory_include",
        "embedding": "embedding",
        "embedding_model": "embedding_model",
        "base_url": "embedding_base_url",
        "api_key": "embedding_api_key",
        "vector_store": "vector_store",
        "similarity_threshold": "similarity_threshold",
    },
}

GROUPS = (WHOLE, *_GROUPS)


class Flat(NamedTuple):
    """Settings by their own names, how they were called, and what is wrong with the groups."""

    values: dict[Any, Any]
    called: dict[Any, str]
    problems: list[str]

    def label(self, name: str) -> str:
        return self.called.get(name, name)


class _One(NamedTuple):
    path: str
    name: Any
    value: Any


def flattened(mapping: Mapping[Any, Any]) -> Flat:
    """A mapping whose inner ones are taken apart."""
    flat = Flat({}, {}, [])
    for one in _read(mapping, "", flat.problems):
        if one.name in flat.values and flat.label(one.name) != one.path:
            flat.problems.append(f"{one.path} is given twice, as {flat.label(one.name)} too; leave one out")
        flat.values[one.name] = one.value
        if isinstance(one.name, str) and one.path != one.name:
            flat.called[one.name] = one.path
    if _says(mapping, lambda group: group.get("enabled") is True):
        flat.values.setdefault("memory_extract", True)
    if _says(mapping, _means_openai) and "embedding" not in flat.values:
        flat.values["embedding"] = "openai"
    return flat


def _read(mapping: Mapping[Any, Any], where: str, problems: list[str]) -> Iterator[_One]:
    for key, value in mapping.items():
        if key == WHOLE and where:
            problems.append(f"{where}{key} stands inside of itself; leave one of them out")
        elif key not in GROUPS:
            yield _One(f"{where}{key}" if isinstance(key, str) else where, key, value)
        elif not isinstance(value, Mapping):
            problems.append(f"{where}{key} = {shown(value)} is refused; allowed: a group of settings")
        elif key == WHOLE:
            yield from _read(value, f"{WHOLE}.", problems)
        else:
            yield from _group(key, value, f"{where}{key}.", problems)


def _group(group: str, mapping: Mapping[Any, Any], where: str, problems: list[str]) -> Iterator[_One]:
    names = _GROUPS[group]
    is_off = mapping.get("enabled") is False
    for key, value in mapping.items():
        if is_off and key == "vector_store" and value == "chroma":
            continue  # nothing is kept: no extra is needed
        if key == "enabled" and key in names and not isinstance(value, bool):
            problems.append(f"{where}{key} = {shown(value)} is refused; allowed: true or false")
        elif key in names:
            yield _One(f"{where}{key}", names[key], _enabled(value) if key == "enabled" else value)
        else:
            problems.append(_unknown(key, value, names, where))


def _enabled(value: bool) -> str:
    """`enabled` brings memories into the view by themselves; that it has them learnt too is seen to in `flattened`."""
    return "auto" if value else "off"


def _unknown(key: Any, value: Any, names: Mapping[str, str], where: str) -> str:
    near = difflib.get_close_matches(str(key)[:100], names, n=1, cutoff=0.4)
    hint = f"did you mean {where}{near[0]}?" if near else f"there are {', '.join(names)}"
    said = "" if isinstance(value, str | bytes) else f" = {shown(value)}"
    return f"unknown setting {where}{shown_name(key) if isinstance(key, str) else shown(key)}{said}; {hint}"


def _says(mapping: Mapping[Any, Any], what: Callable[[Mapping[Any, Any]], bool]) -> bool:
    """Whether a group `semantic_memory` says this."""
    outer = mapping.get(WHOLE)
    groups = [inner.get("semantic_memory") for inner in (mapping, outer) if isinstance(inner, Mapping)]
    return any(isinstance(group, Mapping) and what(group) for group in groups)


def _means_openai(group: Mapping[Any, Any]) -> bool:
    """Whether semantic memory is on and names a model: one of OpenAI's, as the names that are in use tell."""
    return group.get("embedding_model") is not None and group.get("enabled") is not False

"""Check settings from one or more places against their rules, and tell all problems at once.

Pure. Which settings there are is said in `values`; what one value may be, in `rules`. Settings may be written in
groups, as in the JSON of other documents: `context_management` may stand around all of them; `memory` and
`semantic_memory` are groups of their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError
from summarizing_context.settings.rules import Refused, Rule, shown, shown_name

WHOLE = "context_management"

_GROUPS: dict[str, dict[str, str]] = {  # the names in each, and what the settings call them
    "memory": {
        "include": "memory_include",
        "max_tokens": "memory_max_tokens",
        "extract": "memory_extract",
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
            problems.append(_unknown_in_group(key, value, names, where))


def _enabled(value: bool) -> str:
    """`enabled` brings memories into the view by themselves; that it has them learnt too is seen to in `flattened`."""
    return "auto" if value else "off"


def _unknown_in_group(key: Any, value: Any, names: Mapping[str, str], where: str) -> str:
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


KEY_ALIASES = {"compaction_strategy": "strategy"}

SUMMARIES_PER_SEGMENT = 4  # a summary may be at most this part of its segment


@dataclass(frozen=True, slots=True)
class Source:
    """Settings from one place, under the names that the place uses."""

    values: Mapping[Any, Any]
    label: Callable[[str], str] = str  # how a problem names one of them
    is_text: bool = False  # every value is text that is still to be parsed
    problems: Sequence[str] = ()  # that were seen when it was read


@dataclass(frozen=True, slots=True)
class _Given:
    """One value of one source."""

    value: Any
    source: Source
    key: Any  # as the source has it

    def __str__(self) -> str:
        return self.source.label(shown_name(self.key)) if isinstance(self.key, str) else shown(self.key)


def accepted(settings: Sequence[Field[Any]], sources: Iterable[Source]) -> dict[str, Any]:
    """The given settings as they are to be kept, a later source over an earlier one; `SettingsError` otherwise."""
    known = {setting.name: setting for setting in settings}
    problems: list[str] = []
    given: dict[Any, _Given] = {}
    for source in sources:
        problems += source.problems
        given |= _named(source, problems)
    kept: dict[str, Any] = {}
    for name, one in given.items():
        if name not in known:
            problems.append(_unknown(one, known))
            continue
        try:
            kept[name] = _accept(known[name].metadata["rule"], one)
        except Refused as refusal:
            problems.append(_refused(known[name], one, refusal))
    problems += _contradictions(known, kept, given)
    if problems:
        raise SettingsError(problems)
    return kept


def _named(source: Source, problems: list[str]) -> dict[Any, _Given]:
    """A source's values by the settings' own names."""
    named: dict[Any, _Given] = {}
    for key, value in source.values.items():
        one = _Given(value, source, key)
        name = KEY_ALIASES.get(key, key) if isinstance(key, str) else f"({shown(key)})"
        if name in named:
            problems.append(f"{one} is given twice, as {named[name]} too; leave one out")
        named[name] = one
    return named


def _accept(rule: Rule, one: _Given) -> Any:
    return rule.accept(rule.parse(one.value) if one.source.is_text else one.value)


def _unknown(one: _Given, known: Iterable[str]) -> str:
    if not isinstance(one.key, str):
        return f"unknown setting {one}: a name is a string"
    near = difflib.get_close_matches(one.key[:100], [*known, *KEY_ALIASES, *GROUPS], n=1, cutoff=0.4)
    hint = f"did you mean {_beside(one, near[0])}?" if near else "the configuration page lists all settings"
    value = "" if isinstance(one.value, str | bytes) else f" = {shown(one.value)}"  # a text may be a misspelt key's
    return f"unknown setting {one}{value}; {hint}"


def _beside(one: _Given, name: str) -> str:
    """How a source would call a setting that stands where `one` does."""
    where = str(one)
    return where.removesuffix(one.key) + name if where.endswith(one.key) else one.source.label(name)


def _refused(setting: Field[Any], one: _Given, refusal: Refused) -> str:
    value, reason = refusal.shown or shown(one.value), str(refusal)
    if setting.metadata["secret"]:
        value = f"<{type(one.value).__name__}, not shown>"
    rule: Rule = setting.metadata["rule"]
    return f"{one} = {value} is refused{f' ({reason})' if reason else ''}; allowed: {rule.allowed}"


def _contradictions(known: Mapping[str, Field[Any]], kept: Mapping[str, Any], given: Mapping[Any, _Given]) -> list[str]:
    """What is wrong between settings that are right one by one."""
    refused = {name for name in given if name not in kept}
    values = {name: kept.get(name, setting.default) for name, setting in known.items()}

    def described(name: str) -> str:
        return f"{given[name]} = {values[name]}" if name in given else f"{name} = {values[name]} (the default)"

    found = []
    for lower, upper, is_fine, must in _relations(values):
        if not is_fine and lower not in refused and upper not in refused:
            found.append(f"{described(lower)} must be {must} {described(upper)}")
    return found


def _relations(values: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Each pair of settings that belong together, whether they agree, and what is asked of the first."""
    for lower, upper in (
        ("low_water", "high_water"),
        ("segment_min", "segment_target"),
        ("segment_target", "segment_max"),
    ):
        yield lower, upper, values[lower] < values[upper], "below"
    cap = -(-values["segment_target"] // SUMMARIES_PER_SEGMENT)
    fits = values["summary_max_tokens"] is None or values["summary_max_tokens"] <= cap
    yield "summary_max_tokens", "segment_target", fits, f"at most {cap:,}, a quarter of"
    most = values["max_messages"]
    for counted in ("keep_recent", "summarize_threshold"):
        yield counted, "max_messages", None in (values[counted], most) or values[counted] <= most, "at most"

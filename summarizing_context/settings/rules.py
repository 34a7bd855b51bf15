"""Check settings from one or more places against what `values` declares, and tell all problems at once.

Bounds and texts are the `msgspec.Meta` of each field. Settings may be written in groups, as in the JSON of other
documents: `context_management` may stand around all of them, and `semantic_memory` around those of memories.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from summarizing_context.errors import SettingsError

KEY_ALIASES = {"compaction_strategy": "strategy"}

SUMMARIES_PER_SEGMENT = 4  # a summary may be at most this part of its segment

WHOLE, GROUP = "context_management", "semantic_memory"

_IN_GROUP = {  # the names in it, and what the settings call them
    "enabled": "memory_include",
    "embedding": "embedding",
    "embedding_model": "embedding_model",
    "base_url": "embedding_base_url",
    "api_key": "embedding_api_key",
    "vector_store": "vector_store",
    "similarity_threshold": "similarity_threshold",
}


class Refused(Exception):
    """A value that a setting does not accept; `shown` stands for a value that a message may not show."""

    def __init__(self, reason: str = "", *, shown: str | None = None) -> None:
        super().__init__(reason)
        self.shown = shown


class DefaultNumber(int):
    """A default that knows that nobody chose it, through `replace` and copies."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings class, as its annotation declares it.

    `Meta.title` says what a text may be; `Meta.extra` may hold `read`, which takes a value of any type and returns
    what is kept or raises `Refused`, `words`, the only values of a text, and `aliases` of these.
    """

    default: Any
    secret: bool
    hint: Any  # for msgspec
    kind: type  # of a value that is no None: bool, int, float, tuple, or str also for words and paths
    words: tuple[str, ...]  # the only values, where they are words
    optional: bool
    allowed: str  # in words
    description: str
    extra: Mapping[str, Any]

    def accept(self, value: Any) -> Any:
        """Return the value as it is to be kept, or raise `Refused`."""
        is_number = self.kind in (int, float)
        if self.optional and (value is None or (value == "none" and is_number)):  # TOML has no null
            return None
        if isinstance(value, DefaultNumber) and is_number:
            return value
        if "read" in self.extra:
            return self.extra["read"](value)
        if not self.words:
            try:
                return msgspec.convert(value, self.hint)
            except (msgspec.ValidationError, TypeError, ValueError):
                raise Refused from None
        if not isinstance(value, str):
            raise Refused
        aliases = self.extra.get("aliases", {})
        word = aliases.get(value, value)
        if word not in self.words:
            near = difflib.get_close_matches(value[:100].lower(), [*self.words, *aliases], n=1, cutoff=0.5)
            raise Refused(f"did you mean {near[0]}?" if near else "")
        return word

    def parse(self, text: str) -> Any:
        """Return what a text of the environment says, still to be accepted; the text where it says nothing."""
        word = text.strip().lower()
        if self.optional and word in ("", "none"):
            return None
        if self.words:
            return text.strip()
        try:
            if self.kind is bool:
                return ("0", "false", "no", "off", "1", "true", "yes", "on").index(word) >= 4
            return json.loads(text) if self.kind is tuple else self.kind(text)
        except (ValueError, RecursionError):
            return text


@cache
def declared(cls: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    hints = get_type_hints(cls, include_extras=True)
    found = {}
    for one in fields(cls):
        inner, optional, meta = hints[one.name], False, msgspec.Meta()
        while get_origin(inner) in (Annotated, Union, types.UnionType):
            if get_origin(inner) is Annotated:
                inner, meta = inner.__origin__, inner.__metadata__[0]
            else:  # of a value or None, or of a text or a path
                optional = optional or type(None) in get_args(inner)
                inner = get_args(inner)[0]
        extra = meta.extra or {}
        words = get_args(inner) if get_origin(inner) is Literal else extra.get("words", ())
        kind = str if words else get_origin(inner) or inner
        if words:
            allowed = "one of " + ", ".join(words)
        elif kind is bool:
            allowed = "true or false"
        elif kind is int:
            allowed = f"a whole number from {meta.ge:,} to {meta.le:,}"
        elif kind is float and meta.ge is None:
            allowed = f"a number above {meta.gt:,g} and below {meta.lt:,g}"
        elif kind is float:
            allowed = f"a number from {meta.ge:,g} to {meta.le:,g}"
        else:
            allowed = str(meta.title)
        allowed += ", or none" if optional else ""
        described, hint = one.metadata.get("description", ""), hints[one.name]
        found[one.name] = Setting(one.default, not one.repr, hint, kind, words, optional, allowed, described, extra)
    return found


class Given(NamedTuple):
    """A value from one place, and how problems name its setting there."""

    value: Any
    label: str


# What one place says, by the settings' own names, and problems of reading it.
Source = tuple[Mapping[Any, Given], list[str]]


def accepted(cls: type, *sources: Source) -> dict[str, Any]:
    """Return the given settings of a class as they are to be kept, a later source over an earlier one.

    Raise `SettingsError` with all problems.
    """
    known = declared(cls)
    given: dict[Any, Given] = {}
    problems: list[str] = []
    for found, wrong in sources:
        given |= found
        problems += wrong

    # each by itself
    values = {name: setting.default for name, setting in known.items()}
    kept: dict[str, Any] = {}
    for name, (value, label) in given.items():
        if not isinstance(name, str):
            problems.append(f"unknown setting {label}: a name is a string")
        elif name not in known:
            near = difflib.get_close_matches(name[:100], [*known, *KEY_ALIASES, WHOLE, GROUP], n=1, cutoff=0.4)
            hint = "the configuration page lists all settings"
            if near:  # called as its source would call it
                last = shown_name(name)
                place = label[: -len(last) or None]
                hint = f"did you mean {place}{near[0] if label.endswith(last) else near[0].upper()}?"
            problems.append(f"unknown setting {label}{_unless_text(value)}; {hint}")
        else:
            try:
                kept[name] = values[name] = known[name].accept(value)
            except Refused as refusal:
                hidden = f"<{type(value).__name__}, not shown>" if known[name].secret else refusal.shown
                reason = f" ({refusal})" if str(refusal) else ""
                said = f"{label} = {hidden or shown(value)} is refused{reason}"
                problems.append(f"{said}; allowed: {known[name].allowed}")

    # those that belong together; a refused one is not blamed twice
    def described(name: str) -> str:
        return f"{given[name].label} = {values[name]}" if name in given else f"{name} = {values[name]} (the default)"

    for lower, upper, is_fine, must in _relations(values) if "high_water" in known else ():
        if not is_fine and not (given.keys() - kept.keys()) & {lower, upper}:
            problems.append(f"{described(lower)} must be {must} {described(upper)}")
    if problems:
        raise SettingsError(problems)
    return kept


def _relations(values: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Yield each pair of settings that belong together, whether they agree, and what is asked of the first."""
    pairs = (("low_water", "high_water"), ("segment_min", "segment_target"), ("segment_target", "segment_max"))
    for lower, upper in pairs:
        yield lower, upper, values[lower] < values[upper], "below"
    cap = -(-values["segment_target"] // SUMMARIES_PER_SEGMENT)
    fits = (values["summary_max_tokens"] or 0) <= cap
    yield "summary_max_tokens", "segment_target", fits, f"at most {cap:,}, a quarter of"
    most = values["max_messages"]
    for counted in ("keep_recent", "summarize_threshold"):
        yield counted, "max_messages", most is None or (values[counted] or 0) <= most, "at most"


def flattened(mapping: Mapping[Any, Any], where: str = "") -> Source:
    """Return the settings of a mapping that may hold groups, by their own names; `where` is the place that holds it."""
    given: dict[Any, Given] = {}
    implied: dict[Any, Given] = {}  # by a group that is there
    problems: list[str] = []

    def read(group: Mapping[Any, Any], inside: str, *, of_memories: bool = False) -> None:
        for key, value in group.items():
            label = f"{inside}{shown_name(key) if isinstance(key, str) else shown(key)}"
            name = KEY_ALIASES.get(key, key)
            if of_memories and key not in _IN_GROUP:
                near = difflib.get_close_matches(str(key)[:100], _IN_GROUP, n=1, cutoff=0.4)
                hint = f"did you mean {inside}{near[0]}?" if near else f"there are {', '.join(_IN_GROUP)}"
                problems.append(f"unknown setting {label}{_unless_text(value)}; {hint}")
                continue
            if of_memories:
                name = _IN_GROUP[key]
                if key == "enabled" and not isinstance(value, bool):
                    problems.append(f"{label} = {shown(value)} is refused; allowed: true or false")
                    continue
                if key == "enabled":
                    value = "auto" if value else "off"
                elif key == "vector_store" and value == "chroma" and group.get("enabled") is False:
                    continue  # nothing is kept: no extra is needed
            elif key in (WHOLE, GROUP):
                if key == WHOLE and inside != where:
                    problems.append(f"{label} stands inside of itself; leave one of them out")
                elif not isinstance(value, Mapping):
                    problems.append(f"{label} = {shown(value)} is refused; allowed: a group of settings")
                else:
                    read(value, f"{label}.", of_memories=key == GROUP)
                continue
            if name in given:
                problems.append(f"{label} is given twice, as {given[name].label} too; leave one out")
            given[name] = Given(value, label)
        if of_memories and group.get("enabled") is True:
            implied["memory_extract"] = Given(True, f"{inside}enabled")
        if of_memories and group.get("enabled") is not False and group.get("embedding_model") is not None:
            implied["embedding"] = Given("openai", f"{inside}embedding_model")  # as the names that are in use tell

    read(mapping, where)
    return implied | given, problems


def shown_name(name: str) -> str:
    """Return a name that somebody gave as a message shows it: short and printable."""
    cut = name if len(name) <= 60 else f"{name[:60]}…"
    return "".join(one if one.isprintable() else "\ufffd" for one in cut)


def shown(value: Any) -> str:
    """Return a refused value as a message shows it: short, without a password, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # a huge int, or an object whose repr fails
        return f"<{type(value).__name__}>"
    if "://" in text and any(mark in text for mark in "@?"):  # an address that may carry a password or a key
        return f"<{type(value).__name__}, not shown>"
    return text if len(text) <= 60 else f"{text[:60]}… ({type(value).__name__})"


def _unless_text(value: Any) -> str:
    """Return ` = <value>`, or nothing for a text: it may be that of a misspelt key."""
    return "" if isinstance(value, str | bytes) else f" = {shown(value)}"

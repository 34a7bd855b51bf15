"""Check settings from one or more places against what `values` declares, and tell all problems at once.

Bounds and texts are the `msgspec.Meta` of each field. Settings may be written in groups, as in the JSON of other
documents: `context_management` may stand around all of them, and `semantic_memory` around those of memories.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

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

REMOVED = (  # settings of before
    *("band", "cache_read_price", "cache_write_price", "group_share", "header_share", "header_target"),
    *("instructions_share", "job_timeout", "keep_plan", "keep_share", "memory_max_tokens"),
    *("memory_wait", "merge_max_tokens", "message_share", "min_free", "pin_share"),
)

WHY_REMOVED = "it was removed, and what was its default holds; leave it out"


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

    name: str
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
                said = ("0", "false", "no", "off", "1", "true", "yes", "on").index(word)
                return said >= 4
            if self.kind is tuple:
                return json.loads(text)
            return self.kind(text)
        except (ValueError, RecursionError):
            return text


_declared: dict[type, dict[str, Setting]] = {}


def declared(cls: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    if cls in _declared:
        return _declared[cls]
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
        found[one.name] = Setting(
            name=one.name,
            default=one.default,
            secret=not one.repr,
            hint=hints[one.name],
            kind=kind,
            words=words,
            optional=optional,
            allowed=allowed + (", or none" if optional else ""),
            description=one.metadata.get("description", ""),
            extra=extra,
        )
    return _declared.setdefault(cls, found)


@dataclass(frozen=True, slots=True)
class Source:
    """Settings from one place, under the names that the place uses."""

    values: Mapping[Any, Any]
    label: Callable[[str], str] = str  # how a problem names one of them
    problems: Sequence[str] = ()  # that were seen when it was read


def accepted(known: Mapping[str, Setting], sources: Iterable[Source]) -> dict[str, Any]:
    """Return the given settings as they are to be kept, a later source over an earlier one.

    Raise `SettingsError` with all problems.
    """
    # what is given, by the settings' own names: the source, its key, and how a problem names that
    problems: list[str] = []
    given: dict[str, tuple[Source, Any, str]] = {}
    for source in sources:
        problems += source.problems
        named: dict[str, tuple[Source, Any, str]] = {}
        for key in source.values:
            is_name = isinstance(key, str)
            name = KEY_ALIASES.get(key, key) if is_name else f"({shown(key)})"
            label = source.label(shown_name(key)) if is_name else shown(key)
            if name in named:
                problems.append(f"{label} is given twice, as {named[name][2]} too; leave one out")
            named[name] = source, key, label
        given |= named

    # each by itself
    values = {name: setting.default for name, setting in known.items()}
    kept: dict[str, Any] = {}
    for name, (source, key, label) in given.items():
        value = source.values[key]
        if not isinstance(key, str):
            problems.append(f"unknown setting {label}: a name is a string")
        elif name not in known:
            near = difflib.get_close_matches(key[:100], [*known, *KEY_ALIASES, WHOLE, GROUP], n=1, cutoff=0.4)
            hint = "the configuration page lists all settings"
            if key in REMOVED:
                hint = WHY_REMOVED
            elif near:  # called as its source would call it
                beside = label.endswith(key)
                hint = f"did you mean {label.removesuffix(key) + near[0] if beside else source.label(near[0])}?"
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
        return f"{given[name][2]} = {values[name]}" if name in given else f"{name} = {values[name]} (the default)"

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
    values: dict[Any, Any] = {}
    called: dict[str, str] = {}  # by those that stand in a group
    implied: dict[str, Any] = {}  # by a group that is there
    problems: list[str] = []

    def put(path: str, name: Any, value: Any) -> None:
        if name in values and called.get(name, name) != path:
            problems.append(f"{where}{path} is given twice, as {called.get(name, name)} too; leave one out")
        values[name] = value
        if isinstance(name, str) and path != name:
            called[name] = path

    def read_memories(group: Mapping[Any, Any], inside: str) -> None:
        enabled = group.get("enabled")
        for key, value in group.items():
            if key == "enabled" and not isinstance(value, bool):
                problems.append(f"{where}{inside}{key} = {shown(value)} is refused; allowed: true or false")
            elif key == "enabled":
                put(f"{inside}{key}", _IN_GROUP[key], "auto" if value else "off")
            elif key == "vector_store" and value == "chroma" and enabled is False:
                pass  # nothing is kept: no extra is needed
            elif key in _IN_GROUP:
                put(f"{inside}{key}", _IN_GROUP[key], value)
            else:
                near = difflib.get_close_matches(str(key)[:100], _IN_GROUP, n=1, cutoff=0.4)
                hint = f"did you mean {inside}{near[0]}?" if near else f"there are {', '.join(_IN_GROUP)}"
                name = shown_name(key) if isinstance(key, str) else shown(key)
                problems.append(f"{where}unknown setting {inside}{name}{_unless_text(value)}; {hint}")
        if enabled is True:
            implied.setdefault("memory_extract", True)
        if enabled is not False and group.get("embedding_model") is not None:
            implied.setdefault("embedding", "openai")  # as the names that are in use tell

    def read(given: Mapping[Any, Any], inside: str) -> None:
        for key, value in given.items():
            path = f"{inside}{key}" if isinstance(key, str) else inside
            if key not in (WHOLE, GROUP):
                put(path, key, value)
            elif key == WHOLE and inside:
                problems.append(f"{where}{path} stands inside of itself; leave one of them out")
            elif not isinstance(value, Mapping):
                problems.append(f"{where}{path} = {shown(value)} is refused; allowed: a group of settings")
            else:
                (read if key == WHOLE else read_memories)(value, f"{path}.")

    read(mapping, "")
    return Source(implied | values, label=lambda name: f"{where}{called.get(name, name)}", problems=problems)


_SHOWN_CHARACTERS = 60  # of a refused value or name


def shown_name(name: str) -> str:
    """Return a name that somebody gave as a message shows it: short and printable."""
    cut = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}…"
    return "".join(one if one.isprintable() else "\ufffd" for one in cut)


def shown(value: Any) -> str:
    """Return a refused value as a message shows it: short, without a password, and never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # a huge int, or an object whose repr fails
        return f"<{type(value).__name__}>"
    if "://" in text and any(mark in text for mark in "@?"):  # an address that may carry a password or a key
        return f"<{type(value).__name__}, not shown>"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({type(value).__name__})"


def _unless_text(value: Any) -> str:
    """Return ` = <value>`, or nothing for a text: it may be that of a misspelt key."""
    return "" if isinstance(value, str | bytes) else f" = {shown(value)}"

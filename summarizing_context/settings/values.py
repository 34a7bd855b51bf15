"""The settings: their names, defaults, units and bounds, the places they are read from, and the sizes of summaries.

One frozen value, refused as a whole with all its problems at once. What each kind of value accepts is in
`rules`; the modules that read them say what they do.
"""

from __future__ import annotations

import functools
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Self, TypeVar

from summarizing_context.errors import SettingsError
from summarizing_context.settings.checks import SUMMARIES_PER_SEGMENT, Source, accepted, flattened
from summarizing_context.settings.ledger_rules import LedgerRule
from summarizing_context.settings.providers import SUMMARIZERS
from summarizing_context.settings.rules import Choice, Flag, Maybe, Number, Place, Rule, Text, ToolTable, Whole, share

ENV_PREFIX = "SUMMARIZING_CONTEXT_"

TOML_TABLE = "summarizing_context"

PLACES = frozenset(  # of the machine: they change no summary
    ("store", "api_key", "base_url", "embedding_api_key", "embedding_base_url")
)

_MOST = 1_000_000_000  # of anything that is counted

_DAY = 86_400.0  # seconds

_COUNT = Whole(0, _MOST)

_POSITIVE = Whole(1, _MOST)

_ADDRESS = Maybe(Text(r"https?://[^\s/@?#]+(/[^\s@?#]*)?", "http(s)://host/path, without a password in it"))

_KEY = Maybe(Text(r"\S+", "a string without white space"))

S = TypeVar("S")

CALLS_PER_HOUR = 1_000  # about 9,000 messages of an ordinary session


class DefaultTokens(int):
    """The default of `max_tokens`: an int that knows that nobody chose it, through `replace` and copies."""


class DefaultCalls(int):
    """The default of `max_calls_per_hour`, likewise."""


def _setting(default: Any, rule: Rule, *, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"rule": rule, "secret": secret})


def _checked(cls: type[S]) -> type[S]:
    """Let a settings class look at all its arguments before any is kept, so that every problem is told at once."""
    keep: Callable[..., None] = cls.__init__

    @functools.wraps(keep)
    def checked(self: S, /, *positional: Any, **given: Any) -> None:
        if positional:
            raise SettingsError("settings are given by name, as in Settings(store='run.db', session_id='s1')")
        keep(self, **accepted(fields(cls), [_mapping_source(given)]))  # type: ignore[arg-type]

    cls.__init__ = checked  # type: ignore[assignment]
    return cls


@_checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a context behaves. Shares are of room: the budget less its leading system rows."""

    # where the log is
    store: str | Path = _setting(":memory:", Place())
    session_id: str = _setting("default", Text(r"[A-Za-z0-9._:-]{1,200}", "1-200 characters of A-Za-z0-9._:-"))
    project: str | None = _setting(None, Maybe(Text(r".{1,200}", "1-200 characters")))  # tag shared by sessions

    # what stands for the past
    summarizer: str = _setting("extractive", Choice(SUMMARIZERS))
    strategy: str = _setting(
        "hierarchical",
        Choice(
            ("hierarchical", "summarize", "importance", "truncate"),
            aliases={
                "summarization": "summarize",
                "sliding_window": "truncate",
                "importance_based": "importance",
            },
        ),
    )

    # budget, in tokens
    max_tokens: int = _setting(DefaultTokens(100_000), _POSITIVE)  # a cap too, when it was set
    reserved_output: int | None = _setting(None, Maybe(_COUNT))
    safety_margin: int = _setting(1_000, _COUNT)

    # when the view changes, and what it then holds; shares of room
    high_water: float = _setting(0.92, share())
    low_water: float = _setting(0.08, share())
    header_target: float = _setting(0.36, share())
    instructions_share: float = _setting(0.10, Number(0, 0.5))  # 0: no project instructions in the view
    keep_human_messages: bool = _setting(False, Flag())  # in twice the pin share
    ledger_share: float = _setting(0.06, Number(0, 0.5))  # 0: no ledger in the view
    ledger_rules: tuple[LedgerRule, ...] = _setting((), ToolTable())  # what tools of a host's own do
    importance_threshold: float = _setting(0.6, Number(0, 1))  # of the strategy importance
    band: Literal["fidelity", "economy"] = _setting("fidelity", Choice(("fidelity", "economy")))
    cache_read_price: float = _setting(0.1, Number(0, 100))  # of a token; an uncached one costs 1
    cache_write_price: float = _setting(1.25, Number(0, 100))
    start_at: float = _setting(0.5, Number(0, 1))  # share of high water at which background summarizing begins

    # segments and summaries, in estimate tokens
    segment_min: int = _setting(2_000, _POSITIVE)
    segment_target: int = _setting(4_000, _POSITIVE)
    segment_max: int = _setting(8_000, _POSITIVE)
    summary_max_tokens: int | None = _setting(None, Maybe(Whole(16, _MOST)))  # None: by `max_tokens`

    # the background work
    workers: Literal["own", "pool", "both"] = _setting("own", Choice(("own", "pool", "both")))  # that make summaries
    concurrency: int = _setting(8, Whole(1, 1_000))  # summaries in flight
    call_timeout: float = _setting(60.0, Number(0, _DAY, open_ends=True))  # seconds
    job_timeout: float = _setting(180.0, Number(0, _DAY, open_ends=True))  # seconds
    attempts: int = _setting(3, Whole(1, 100))  # calls
    breaker_failures: int = _setting(4, Whole(1, 1_000))
    breaker_cooldown: float = _setting(30.0, Number(0, _DAY))  # seconds
    max_calls_per_hour: int | None = _setting(DefaultCalls(CALLS_PER_HOUR), Maybe(_COUNT))
    max_input_tokens_per_hour: int | None = _setting(None, Maybe(_COUNT))
    max_calls_per_session: int | None = _setting(None, Maybe(_COUNT))
    max_input_tokens_per_session: int | None = _setting(None, Maybe(_COUNT))
    max_wait: float = _setting(0.0, Number(0, 3_600))  # seconds a view may wait at an activation

    # the summarizer's service
    model: str | None = _setting(None, Maybe(Text(r"\S.{0,199}", "1-200 characters")))
    base_url: str | None = _setting(None, _ADDRESS)
    api_key: str | None = _setting(None, _KEY, secret=True)

    prompts: str | Path | None = _setting(None, Maybe(Place("a path to a folder")))  # of a user's own, over the shipped

    summary_instructions: str | None = _setting(None, Maybe(Text(r"\s*\S.{0,1999}", "1-2000 characters")))

    prices: str | Path | None = _setting(None, Maybe(Place("a path to a TOML file")))  # over the package's table

    # counting
    token_counter: Literal["auto", "tiktoken", "estimate"] = _setting("auto", Choice(("auto", "tiktoken", "estimate")))
    allow_download: bool = _setting(False, Flag())
    image_tokens: int = _setting(1_600, _COUNT)  # price of an image

    # the shape of a view
    idle_after: float | None = _setting(300.0, Maybe(Number(0, 365 * _DAY, open_ends=True)))  # seconds; None = never
    header_role: Literal["user", "system", "developer"] = _setting("user", Choice(("user", "system", "developer")))
    merge_user_rows: bool = _setting(False, Flag())
    max_messages: int | None = _setting(None, Maybe(_POSITIVE))  # a further high water
    summarize_threshold: int | None = _setting(None, Maybe(_POSITIVE))  # from so many on summaries are made
    keep_recent: int | None = _setting(None, Maybe(_POSITIVE))  # a floor of the raw tail, in messages

    # finding again
    embedding: Literal["openai"] | None = _setting(None, Maybe(Choice(("openai",))))  # what turns texts into vectors
    embedding_model: str | None = _setting(None, Maybe(Text(r"\S.{0,199}", "1-200 characters")))
    embedding_base_url: str | None = _setting(None, _ADDRESS)
    embedding_api_key: str | None = _setting(None, _KEY, secret=True)
    vector_store: Literal["sqlite", "chroma"] = _setting("sqlite", Choice(("sqlite", "chroma")))
    similarity_threshold: float | None = _setting(None, Maybe(Number(0, 1)))  # None: by what there is to compare with
    memory_include: Literal["off", "auto"] = _setting("off", Choice(("off", "auto")))
    memory_max_tokens: int = _setting(1_000, _POSITIVE)
    memory_extract: bool = _setting(False, Flag())  # learn memories at summaries, checkpoints, and on leaving

    # going back
    checkpoint_interval_messages: int | None = _setting(None, Maybe(_POSITIVE))  # an automatic one every so many

    @property
    def max_tokens_is_set(self) -> bool:
        """Whether somebody chose `max_tokens`: then it caps the provider's window too."""
        return not isinstance(self.max_tokens, DefaultTokens)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """Settings from names and values of the right types, such as a host's configuration."""
        return cls(**accepted(fields(cls), [_mapping_source(mapping)]))

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str], table: str = TOML_TABLE) -> Self:
        """Settings from one table of a TOML file; a dotted name reaches an inner table."""
        return cls(**accepted(fields(cls), [_toml_source(path, table)]))

    @classmethod
    def from_json(cls, path: str | os.PathLike[str], table: str | None = None) -> Self:
        """Settings from a JSON file, all of it or one table; they may stand inside `context_management`."""
        return cls(**accepted(fields(cls), [_json_source(path, table)]))

    @classmethod
    def from_env(cls, prefix: str = ENV_PREFIX, environ: Mapping[str, str] | None = None) -> Self:
        """Settings from the environment: `<prefix><NAME>`; an unknown variable with the prefix is refused."""
        return cls(**accepted(fields(cls), [_env_source(prefix, environ)]))

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
        """Settings from all places: argument over environment over file, TOML or `.json`, over default."""
        sources = [] if file is None else [_file_source(file, table)]
        sources += [_env_source(prefix, environ), _mapping_source(arguments)]
        return cls(**accepted(fields(cls), sources))


def without_default_cap(settings: Settings) -> Settings:
    """The settings without the cap that nobody chose: for replays, whose hours are seconds, and for a pool's worker."""
    is_default = isinstance(settings.max_calls_per_hour, DefaultCalls)
    return replace(settings, max_calls_per_hour=None) if is_default else settings


def _mapping_source(mapping: Mapping[str, Any]) -> Source:
    if not isinstance(mapping, Mapping):
        raise SettingsError(f"settings must be a mapping of names to values, not {type(mapping).__name__}")
    flat = flattened(mapping)
    return Source(flat.values, label=flat.label, problems=flat.problems)


TOKENS = ("PROXY_TOKEN", "MCP_TOKEN")  # of servers, which the command line reads; no settings


def _env_source(prefix: str, environ: Mapping[str, str] | None) -> Source:
    if not isinstance(prefix, str) or not prefix:
        raise SettingsError("the prefix of environment variables must be a string, and not empty")
    found = os.environ if environ is None else environ
    named = {name: text for name, text in found.items() if name.startswith(prefix)}
    named = {name: text for name, text in named.items() if name.removeprefix(prefix) not in TOKENS}
    return Source(
        {name.removeprefix(prefix).lower(): text for name, text in named.items()},
        label=lambda key: f"environment variable {prefix}{key.upper()}",
        is_text=True,
    )


def _file_source(path: str | os.PathLike[str], table: str | None) -> Source:
    is_json = str(path).lower().endswith(".json")
    return _json_source(path, table) if is_json else _toml_source(path, TOML_TABLE if table is None else table)


def _toml_source(path: str | os.PathLike[str], table: str) -> Source:
    return _table_source(path, _read(path, tomllib.load), str(table))


def _json_source(path: str | os.PathLike[str], table: str | None) -> Source:
    return _table_source(path, _read(path, json.load), table)


def _read(path: str | os.PathLike[str], load: Callable[[BinaryIO], Any]) -> Any:
    try:
        with Path(path).expanduser().open("rb") as file:
            return load(file)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise SettingsError(f"{path}: the settings cannot be read: {reason}") from error


def _table_source(path: str | os.PathLike[str], found: Any, table: str | None) -> Source:
    for name in [] if table is None else table.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        lacks = "holds no table of settings" if table is None else f"has no table [{table}]"
        raise SettingsError(f"{path}: {lacks}; add it, or name another one")
    flat = flattened(found)
    where = f"{path}: " if table is None else f"{path}: [{table}] "
    problems = [f"{where}{problem}" for problem in flat.problems]
    return Source(flat.values, label=lambda key: f"{where}{flat.label(key)}", problems=problems)


_CAPS = ((12_000, 400, 800), (24_000, 640, 1_600), (None, 900, 2_000))  # below this budget: a summary, a merge

DEFAULT_CAPS = tuple(leaf for _, leaf, _ in _CAPS)

FIRST_CAP = 400  # the default of the first release

_USUAL = 0.7  # of its cap, that a summary takes, about

_LEAST_STEP, _MOST_STEP = 4, 16  # segments


class SummarySizes(NamedTuple):
    """Sizes in tokens, and how many segments at a time go from the unrolled part of a header into its merge."""

    leaf: int  # cap of one segment's summary
    merge: int  # cap of a merge
    step: int  # segments; a power of two
    target: float  # tokens of a header above which more is merged, in a view of `max_tokens`


def summary_sizes(settings: Settings) -> SummarySizes:
    """The sizes that the settings ask for: those that are given, else by `max_tokens`.

    A step is as many segments as fill half of the header's target.
    """
    by_budget, merge_by_budget = next(caps for below, *caps in _CAPS if below is None or settings.max_tokens < below)
    leaf = settings.summary_max_tokens or max(16, min(by_budget, settings.segment_target // SUMMARIES_PER_SEGMENT))
    merge = min(merge_by_budget, 5 * leaf // 2)
    target = settings.header_target * settings.max_tokens
    step = _LEAST_STEP
    while 2 * step <= min(_MOST_STEP, target / 2 / (_USUAL * leaf)):
        step *= 2
    return SummarySizes(leaf, merge, step, target)

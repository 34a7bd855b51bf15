"""What a mount plan asks for, the session that it opens, and its log in step with the lists that a host sets.

The session is in its file, or in memory; a JSON history is taken over once. A damaged file, or one that another process
writes, is an error: a log exists, and going on without it would lose it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from summarizing_context import settings as rules
from summarizing_context.adapters.amplifier.messages import as_logged
from summarizing_context.adapters.open_sessions import as_json, opened_store
from summarizing_context.assembly import Options, start_context
from summarizing_context.concurrency import in_turns
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MessageError, SettingsError, StoreCorruptError, StoreError, StoreReadOnlyError
from summarizing_context.log.entries import content_digest
from summarizing_context.messages.reading import Message, decode_message, parse_messages, read_message
from summarizing_context.settings import Settings, is_address

_MEMORY = ":memory:"

_SAME_AS = {"compact_threshold": "high_water", "compaction_threshold": "high_water", "storage_path": "store"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """The options that are no settings."""

    preserve_system: bool = True  # else leading system rows are left out of views that stand on summaries
    recall_tool: bool = False  # mount the tool `context_recall`
    compact_tool: bool = False  # mount the tool `context_compact`
    memory_tools: bool = False  # mount the tools that remember, search and forget
    hooks: Literal["background", "await"] = "background"  # of a compaction


@dataclass(frozen=True, slots=True, kw_only=True)
class _Persistence:
    """Those in the mapping `persistence`."""

    enabled: bool = True
    path: Annotated[str | Path, Meta(title="a path to a file")] | None = None
    required: bool = False  # no falling back to memory when the file cannot be used


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan(_Own):
    settings: Settings
    required: bool = False  # no falling back to memory when the file cannot be used
    names_session: bool = False  # otherwise the host's session gives the name


def read_options(config: Mapping[str, Any] | None) -> MountPlan:
    """Return the options in `config`. Raise `SettingsError` that tells everything that is wrong with them."""
    if config is not None and not isinstance(config, Mapping):
        raise SettingsError(f"the options of a mount plan are a mapping, not {type(config).__name__}")
    flat, problems = rules.flattened(config or {}), list[str]()

    def kept(cls: type, given: Mapping[Any, rules.Given], also: Iterable[str] = ()) -> dict[str, Any]:
        try:
            return rules.accepted(cls, given, also)
        except SettingsError as error:
            problems.extend(error.problems)
            return {}

    # options that are empty, as the host's documents have them, are not said
    known = {*rules.declared(Settings), *_SAME_AS, *rules.declared(_Own), *rules.declared(_Persistence), "persistence"}

    def is_said(key: Any, value: Any) -> bool:
        return key not in known or (value is not None and (key, value) not in (("storage_path", ""), ("path", "")))

    given = {key: one for key, one in flat.items() if is_said(key, one.value)}
    persistence = given.pop("persistence", rules.Given(None, "persistence"))
    inside = {} if persistence.value is None else persistence.value
    if not isinstance(inside, Mapping):
        allowed = f"allowed: a mapping of {', '.join(rules.declared(_Persistence))}"
        problems.append(f"persistence = {rules.shown(inside)} is refused; {allowed}")
        inside = {}
    said = {key: rules.Given(value, f"persistence.{key}") for key, value in inside.items() if is_said(key, value)}
    place = kept(_Persistence, said)
    own = kept(_Own, {name: given.pop(name) for name in rules.declared(_Own) if name in given})

    # the settings, under whichever of their names they are given
    values = dict[Any, rules.Given]()
    enabled = place.get("enabled", True)
    if persistence.value is not None and ("path" in place or not {"store", "storage_path"} & given.keys()):
        values["store"] = rules.Given(place.get("path", "~/.amplifier/contexts.db"), "persistence.path")
    for key, one in given.items():
        name = _SAME_AS.get(key, key)
        if enabled and name in values and values[name].value != one.value:
            problems.append(f"{key} is given twice, as {values[name].label} too; leave one out")
        values[name] = one
    if not enabled:
        values["store"] = rules.Given(_MEMORY, "persistence.enabled")
    settings = kept(Settings, values, also=(*_SAME_AS, *rules.declared(_Own), "persistence"))
    if own.get("preserve_system") is False and settings.get("header_role", "user") != "user":
        problems.append(f"preserve_system = False needs header_role = 'user', not {settings['header_role']!r}")
    if problems:
        raise SettingsError(problems)
    required = place.get("required", False)
    return MountPlan(**own, settings=Settings(**settings), required=required, names_session="session_id" in given)


def choose_provider(mounted: Mapping[str, Any] | None) -> Any:
    """Return the provider that the host would choose first, or None."""

    def priority(provider: Any) -> float:
        found = getattr(provider, "priority", None)
        if found is None and isinstance(config := getattr(provider, "config", None), Mapping):
            found = config.get("priority")
        return found if isinstance(found, int | float) and not isinstance(found, bool) else 100

    return min((mounted or {}).values(), key=priority, default=None)


async def open_session(plan: MountPlan, options: Options, degraded: Callable[[str], None]) -> SummarizingContext:
    """Return an open context that the caller closes; tell `degraded` why it is kept in memory only, if it is.

    Where the file is a JSON list of messages, the session is in a store next to it, which imports them once.
    """
    options = replace(options, keep_system=plan.preserve_system)
    if plan.settings.store == _MEMORY or is_address(plan.settings.store) or options.read_only:
        return await start_context(plan.settings, options)
    place, messages = Path(plan.settings.store), list[Any]()
    try:
        if (listed := _read_list(place)) is not None:
            place = place.with_name(f"{place.name}.db")
            messages = list(map(as_logged, as_json(listed)))
            async with opened_store(place) as opened:
                if any(session.messages for session in await opened.sessions()):
                    messages = []
        context = await start_context(replace(plan.settings, store=place), options)
    except StoreReadOnlyError as error:
        if plan.required:
            raise
        degraded(str(error))
        logger.warning("the session is kept in memory only and ends with the process: %s", error)
        with suppress(StoreError):  # there is none, or it cannot be read either; the warning has said so
            async with opened_store(place, read_only=True) as opened:
                if session := await opened.load(plan.settings.session_id):
                    messages = [decode_message(entry.message) for entry in session.entries]
        context = await start_context(replace(plan.settings, store=_MEMORY), options)
    try:
        if messages:
            await context.set_messages(messages)
    except BaseException:
        await context.close()
        raise
    return context


def _read_list(path: Path) -> list[Any] | None:
    """Return the messages where a file is a JSON list, None where it is or may become a store. Raise `StoreError`."""
    try:
        if not path.parent.is_dir():
            raise StoreReadOnlyError(f"{path}: its folder does not exist; create it, or name another")
        if path.exists() and not path.is_file():
            raise StoreReadOnlyError(f"{path}: this is not a file; name a file for the store")
    except OSError as error:
        raise StoreReadOnlyError(f"{path}: it cannot be reached: {error.strerror}; name another file") from error
    beginning = b""
    with suppress(OSError), path.open("rb") as file:
        beginning = file.read(4_096)
    if not beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return None
    try:
        return list(json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, RecursionError, OSError) as error:
        fault = f"begins like a JSON list but cannot be read ({type(error).__name__})"
        raise StoreCorruptError(f"{path} {fault}; repair it, or name another storage_path") from None


async def take_transcript(
    context: SummarizingContext, messages: Iterable[Message], *, loaded: bool, resuming: bool
) -> None:
    """Bring the log in step with `messages`. `loaded`: from a file; `resuming`: and nothing was said since then.

    Nothing changes where nothing but system, developer, hook and ephemeral rows is missing. While resuming, the host
    gives back what it has saved, perhaps less than the log holds: that stays, and only what it lacks at its end is
    appended. Else the messages replace what differs; a loaded log keeps its leading system rows, unless the messages
    lead with some. Raises `MessageError`; then nothing has changed.
    """
    if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
        messages = list(map(as_logged, messages))  # read more than once
    log = await context.get_messages()
    try:
        is_same, _ = await _compare(messages, log)
    except MessageError:
        written = as_json(messages)
        messages = list(map(as_logged, written)) if isinstance(written, list) else written
        is_same, _ = await _compare(messages, log)
    rows: list[Message] = list(messages)
    if is_same and rows:
        return
    if not resuming:
        if loaded and not (rows and may_be_missing(rows[0])):
            rows = [*takewhile(may_be_missing, log), *rows]
        await context.follow(rows)
        return

    rows = list(dropwhile(may_be_missing, rows))  # the leading rows of the log stay in front
    _, stop = await _compare(rows, log)
    if stop is None:
        logger.warning("the host's transcript differs from the log of the session, which stays; clear() empties it")
    elif stop < len(rows):
        logger.info("the host's transcript holds more than the log")
        for row in rows[stop:]:
            await context.add_message(row)


async def _compare(transcript: Iterable[Message], log: Sequence[Message]) -> tuple[bool, int | None]:
    """Compare a host's copy of a conversation with the log, by what the messages say. Raise `MessageError`.

    Return whether they are the same: nothing is missing but what hosts leave out, and ephemeral messages count for
    nothing. Also return how many messages of the copy the log has, from the first on; None where the two differ.
    """
    read = [read_message(message) async for message, _ in in_turns(parse_messages(transcript), 100)]
    places = [at for at, reading in enumerate(read) if not reading.ephemeral]
    said, length = [content_digest(read[at]) for at in places], len(places)
    reached = {0}  # how many of the transcript may have been met, as a row left out can equal one that is not
    was_met = not places  # all of the transcript, at some place of the log
    async for row in in_turns(log, 100):
        reading, metadata = read_message(row), row.get("metadata")
        is_hook = isinstance(metadata, dict) and metadata.get("source") == "hook"
        digest = content_digest(reading)
        met = {at + 1 for at in reached if at < length and said[at] == digest}
        reached = met | reached if may_be_missing(row) or is_hook or reading.ephemeral else met
        if not reached:
            return False, len(read) if was_met else None
        was_met = was_met or length in reached
    return length in reached, len(read) if was_met else [*places, len(read)][max(reached)]


def may_be_missing(message: Any) -> bool:
    """Return whether a host adds such a row by itself, before it gives back a conversation."""
    return isinstance(message, Mapping) and message.get("role") in ("system", "developer")

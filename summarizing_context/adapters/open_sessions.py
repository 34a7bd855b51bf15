"""What adapters share: the sessions that a host keeps open at once, names and values for a store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from summarizing_context.assembly import Options, open_store, start_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import MessageError, SettingsError, briefly
from summarizing_context.log.message_log import BoundThinking as BoundThinking
from summarizing_context.messages.reading import Message, canonical_json
from summarizing_context.settings import Settings
from summarizing_context.stores.base import SessionStore
from summarizing_context.summarizers.base import Summarizer

KEY = "_key"  # of a row: equal for rows that were made of the same; never sent and never counted
BINDING_BETA = "thinking-binding-controls-2026-08-01"  # of the header `anthropic-beta`


def bound_thinking(model: str, thinking: Any = None, *, may_ask: bool = False) -> BoundThinking:
    """Return what becomes of signed thinking behind a rewritten beginning, in requests with this field `thinking`.

    With `may_ask` the caller can change that field, by `dropping`. Models that refuse it, as of November 2026: Claude
    Fable and Mythos 5.1 and 5.2, and Opus, Sonnet and Haiku 5.5. Later ones are taken to.
    """
    told = thinking if isinstance(thinking, Mapping) else {}
    wanted = (told.get("block_binding") or {}).get("prefix_mismatch_behavior")
    later = r"(?:fable|mythos)-5[.-][1-9]|(?:opus|sonnet|haiku)-5[.-][5-9]|[a-z]+-(?:[6-9]|[1-9]\d)"
    if re.search(rf"claude-(?:{later})(?!\d)", model, re.IGNORECASE) is None:
        return "needed" if told.get("type") == "enabled" else "kept"
    may_ask = may_ask and wanted is None and told.get("type", "adaptive") in ("adaptive", "enabled")
    return "asked" if may_ask or wanted == "drop_block" else "left_out"


def dropping(thinking: Any) -> dict[str, Any]:
    """Return the field `thinking` of a request, with the wish that void blocks be dropped. It needs `BINDING_BETA`.

    Models that bind thinking think adaptively where the field is missing, and refuse it without a type.
    """
    told = thinking if isinstance(thinking, Mapping) else {}
    binding = {**(told.get("block_binding") or {}), "prefix_mismatch_behavior": "drop_block"}
    return {"type": "adaptive", **told, "block_binding": binding}


@asynccontextmanager
async def opened_store(place: Path | str, *, read_only: bool = False) -> AsyncIterator[SessionStore]:
    """Open the store at a path or an address, and close it in the end."""
    store = await open_store(place, read_only=read_only)
    try:
        yield store
    finally:
        await store.close()


def model_of(name: str, model: str, window: Any, max_output: Any, cache_lifetime: str | None = None) -> Any:
    """Return a model as `get_messages_for_request` reads providers: its name, its window in tokens where the host knows
    it, and how long its prompt cache is to last, where a request asks for that, such as `1h`."""
    limits = {"context_window": window, "max_output_tokens": max_output}
    return SimpleNamespace(name=name, get_model_info=lambda: {"id": model, "cache_lifetime": cache_lifetime, **limits})


def beside_messages(tools: Iterable[Any], schema: str, instructions: Iterable[Any]) -> list[Message]:
    """Return what takes room beside messages: tools, whose `schema` has this name, and what instructs the model."""
    made: list[Message] = []
    for tool in tools:
        described = {name: str(getattr(tool, name, None) or "") for name in ("name", "description")}
        made.append({**described, "parameters": getattr(tool, schema, {})})
    return made + [{"instructions": said} for said in instructions if said]


def text_of(content: str | Sequence[Any]) -> str:
    blocks = [content] if isinstance(content, str) else content
    texts = (block if isinstance(block, str) else block.get("text") for block in blocks)
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def digest_of(data: bytes | bytearray) -> str:
    """Return what stands for content in names of rows and in place of the bytes of files."""
    return hashlib.blake2b(data, digest_size=12).hexdigest()


def keyed(row: Message, made_of: object) -> Message:
    """Return a row with its key, a digest of what it was made of: the same in every process, whatever stands before."""
    return {**row, KEY: digest_of(canonical_json(made_of).encode())}


def as_json(value: Any) -> Any:
    """Return the value with everything that JSON has no form for written down: of bytes a digest, models as mappings,
    the rest as text. Raise `MessageError` for what cannot be."""

    def written(item: Any) -> Any:
        if item is None or isinstance(item, str | int | float):
            return item
        if isinstance(item, bytes | bytearray):
            return f"digest:{digest_of(item)}"
        if isinstance(item, Mapping):
            return {name if isinstance(name, str) else str(name): written(inner) for name, inner in item.items()}
        if isinstance(item, list | tuple | set | frozenset):
            return [*map(written, item if isinstance(item, list | tuple) else sorted(item, key=repr))]
        if callable(dump := getattr(item, "model_dump", None)) and not isinstance(item, type):
            return written(dump())  # messages and blocks of a host
        shown = repr(item)
        return type(item).__name__ if " at 0x" in shown else shown  # an address is another one in each process

    try:  # by way of JSON text, in which a character that was given as two halves is one
        return json.loads(json.dumps(written(value)), parse_constant=lambda word: str(float(word)))
    except (RecursionError, TypeError, ValueError) as error:
        raise MessageError(f"the message cannot be written as JSON ({error})") from error


def session_id_from(host_id: str) -> str:
    """Return the host's session id in at most 200 of the characters that one may have; other ids stay different."""
    plain = re.sub(r"[^A-Za-z0-9._:-]", "-", host_id)
    if plain == host_id and len(plain) <= 200:
        return plain
    return f"{plain[:187]}.{hashlib.sha256(host_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class _Session:
    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.users = 0
        self.context: SummarizingContext | None = None


class Sessions:
    """The open sessions of a host. Each has one user at a time.

    At most `most` stay open beside those in use; those unused for longest are closed. All methods belong to one event
    loop. `options` are those of `open_context` but `store`.
    """

    def __init__(self, settings: Settings | None = None, *, most: int = sys.maxsize, **options: Any) -> None:
        """Raise `SettingsError` for wrong arguments."""
        if not isinstance(settings, Settings | None):
            raise SettingsError(f"{briefly(settings)} is no Settings value")
        if unknown := sorted(options.keys() - Options.__dataclass_fields__.keys()):
            raise SettingsError(f"no such options: {', '.join(unknown)}; they are those of open_context")
        if "store" in options:
            raise SettingsError("a store that is open serves one session; name its place in the settings")
        self.settings = settings or Settings()
        self._options = Options(**options)
        self._most = most
        self._sessions: dict[str, _Session] = {}  # the one used last at the end
        self._closing: asyncio.Task[None] | None = None  # of sessions beyond `most`

    @asynccontextmanager
    async def use(
        self, host_id: str | None = None, summarizer: Summarizer | None = None
    ) -> AsyncIterator[SummarizingContext]:
        """Lend the session of this name, or that of the settings, to one user after the other; opened where it is not.
        Raise as `open_context` does.

        A session that is opened now has this `summarizer`, if one is given, in place of that of the options.
        """
        name = session_id_from(str(host_id or self.settings.session_id))
        session = self._sessions[name] = self._sessions.pop(name, _Session())
        session.users += 1
        try:
            async with session.turn:
                if session.context is None:
                    options = self._options if summarizer is None else replace(self._options, summarizer=summarizer)
                    session.context = await start_context(replace(self.settings, session_id=name), options)
                yield session.context
        finally:
            session.users -= 1
            oldest = list(self._sessions.items())[: max(0, len(self._sessions) - self._most)]
            unused = [name for name, each in oldest if not each.users]
            if unused and (self._closing is None or self._closing.done()):
                self._closing = asyncio.create_task(self._close(unused))

    def contexts(self) -> dict[str, SummarizingContext]:
        return {name: each.context for name, each in self._sessions.items() if each.context is not None}

    async def close(self, host_id: str | None = None) -> None:
        """Close the session of this name, or all, at once. The next use opens it again."""
        if self._closing is not None:
            await self._closing
        await self._close(list(self._sessions) if host_id is None else [session_id_from(host_id)])

    async def _close(self, names: Sequence[str]) -> None:
        async def end(name: str) -> None:
            if (session := self._sessions.get(name)) is None:
                return
            async with session.turn:  # who wants it meanwhile waits, and opens it again
                context, session.context = session.context, None  # from now on it cannot be used, even if this fails
                if context is not None:
                    await context.close()
            if not session.users:
                self._sessions.pop(name, None)

        for error in filter(None, await asyncio.gather(*map(end, names), return_exceptions=True)):
            raise error

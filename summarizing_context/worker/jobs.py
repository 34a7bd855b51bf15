"""Recipes: how summaries are made, the hash under which they are shared, and that each is paid for once."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args
from weakref import WeakValueDictionary

from summarizing_context.concurrency import Clock, WorkerThread
from summarizing_context.errors import StoreError
from summarizing_context.log.entries import recipe_hash
from summarizing_context.log.ledger import SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Maker
from summarizing_context.messages.redaction import Redact, Redaction
from summarizing_context.messages.rendering import CUTTING_VERSION, RENDERER_VERSION
from summarizing_context.settings import Settings
from summarizing_context.stores.base import SessionStore, Store, StoredSummary, SummaryKey
from summarizing_context.summarizers.base import Caller, SummaryReply
from summarizing_context.summarizers.prompts import in_use
from summarizing_context.summarizers.verification import GROUNDING_VERSION
from summarizing_context.worker.summary_cache import SummaryCache

_CLAIM = 300.0  # seconds; other hosts wait no longer for one that lives

logger = logging.getLogger(__name__)

Found = TypeVar("Found")

Prompted = Literal["segment", "rollup", "memory", "rules"]
_INSTRUCTED = ("segment", "rollup")  # which follow `summary_instructions`


class Recipe:
    """How a session's summaries are made, by a summarizer called `name`; `own` is the extractive one, which reads no
    prompt.

    Unnamed summarizers are not shared between sessions. A `redact` function may say in an attribute `version` what it
    takes out.
    """

    def __init__(self, settings: Settings, name: str | None, *, own: bool, redact: Redaction | None) -> None:
        self.maker: Maker = "extractive" if own else "model"
        self.shared = name is not None  # whether the store may keep and offer them
        self.claims = not own and settings.workers == "own"  # what is paid for; a pool's workers claim it themselves
        self.memory_tokens = settings.summary_max_tokens or 400  # of a note on what later sessions need
        self.redact: Redact | None = None if own else redact
        self._prompts = {purpose: in_use(purpose, settings.prompts) for purpose in get_args(Prompted)}
        for prompt in self._prompts.values():
            prompt.render(max_tokens=1)  # what nothing fills is refused now
        self._more = None if own else settings.summary_instructions
        self._fixed = {
            "summarizer": name or f"private/{uuid.uuid4().hex}",
            "renderer": RENDERER_VERSION if own else f"{RENDERER_VERSION}, {CUTTING_VERSION}",
            **({} if own else {"grounding": GROUNDING_VERSION}),
            "redacted": redact is not None and not own and str(redact.version),
            **({"thinking": True} if settings.summarize_thinking else {}),
        }

    def hash_of(self, kind: Prompted, max_tokens: int) -> str:
        """Return what the store keeps them under: by what is asked for, and the tokens it may take."""
        prompt = None if self.maker == "extractive" else self._prompts[kind].hash
        asked = {"instructions": self._more} if self._more and kind in _INSTRUCTED else {}
        return recipe_hash({**self._fixed, **asked, "max_tokens": max_tokens, "kind": kind, "prompt": prompt})

    def instructions(self, kind: Prompted, max_tokens: int) -> str:
        text = self._prompts[kind].render(max_tokens=max_tokens)
        return f"{text}\n\n{self._more}" if self._more and kind in _INSTRUCTED else text


@dataclass(frozen=True, kw_only=True)
class SessionWork:
    """What the parts of one session share."""

    settings: Settings
    log: MessageLog
    summaries: SummaryCache
    ledger: SessionLedger
    store: SessionStore
    caller: Caller
    recipe: Recipe
    clock: Clock
    background: WorkerThread  # where texts are worked on
    notify: Callable[[str, dict[str, Any]], None]
    read_only: bool


# by event loop and key
_held_keys: WeakValueDictionary[tuple[int, Hashable, SummaryKey], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def paid_once(store: Store, recipe: Recipe, key: SummaryKey, owner: object) -> AsyncIterator[None]:
    """Hold a key while it is looked up in the store, paid for, and kept.

    One task of an event loop holds it, and one of the hosts that share the store. An `owner` whose summaries are not
    shared pays for its own.
    """
    is_shared = recipe.shared and store.name != ":memory:"
    hosts = getattr(store, "claims", None) if is_shared and recipe.claims else None  # a store may have none
    wanted = (id(asyncio.get_running_loop()), store.name if is_shared else id(owner), key)
    async with _held_keys.setdefault(wanted, asyncio.Lock()), hosts.held(key, _CLAIM) if hosts else nullcontext():
        yield


async def guarded(work: Awaitable[Found]) -> Found | None:
    """A store that fails costs what it would share with other sessions and processes, and nothing else."""
    try:
        return await work
    except StoreError as error:
        logger.warning("summaries and errors are not shared for now", extra={"cause": repr(error)})
        return None


async def answered_once(
    work: SessionWork,
    key: SummaryKey,
    ask: Callable[[], Awaitable[SummaryReply]],
    owner: object,
    serves: Callable[[SummaryReply], bool] = lambda cut: False,
) -> SummaryReply:
    """Return the reply that the store has under a key, else what `ask` returns, kept there unless it was cut off; then
    it is kept if it `serves`."""
    store, session_id, is_shared = work.store, work.settings.session_id, work.recipe.shared
    async with paid_once(store, work.recipe, key, owner):
        found = await guarded(store.find_summaries(session_id, [key])) if is_shared else None
        if found and key in found:
            return SummaryReply(found[key].text)
        reply = await ask()
        if is_shared and (not reply.truncated or serves(reply)):
            made = StoredSummary(reply.text, 0, reply.input_tokens or 0, reply.output_tokens or 0)
            kept = await guarded(store.save_summary(session_id, key, made))
            reply = replace(reply, text=kept.text if kept else reply.text)
        return reply

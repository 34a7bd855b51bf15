"""Recipes: how summaries are made, the hash under which they are shared, and that each is paid for once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args
from weakref import WeakValueDictionary

from summarizing_context.concurrency import Clock, WorkerThread
from summarizing_context.log.entries import recipe_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Maker
from summarizing_context.messages.redaction import Redact, Redaction
from summarizing_context.messages.rendering import CUTTING_VERSION, RENDERER_VERSION
from summarizing_context.settings import Settings
from summarizing_context.stores.base import Store, SummaryKey
from summarizing_context.summarizers.base import Caller
from summarizing_context.summarizers.prompts import in_use
from summarizing_context.summarizers.resilience import RetrySchedule
from summarizing_context.summarizers.verification import GROUNDING_VERSION

RULES_TOKENS = 600  # of a reply on standing rules
_CLAIM = 300.0  # seconds; other hosts wait no longer for one that lives

Prompted = Literal["segment", "rollup", "focus", "memory", "rules"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How this session's summaries are made."""

    maker: Maker  # "model" or "extractive"
    shared: bool  # whether the store may keep and offer them
    hash_of: Callable[[Prompted, int], str]  # under which it does: by what is asked for, and the tokens it may take
    instructions: Callable[[Prompted, int], str]  # by the same
    memory_tokens: int  # of a note on what later sessions need
    redact: Redact | None
    asks_pool: bool = False  # a pool's workers claim what they pay for; this process claims nothing


@dataclass(kw_only=True, eq=False)
class SessionWork:
    """What background work on one session is made of. All its methods belong to the session's event loop."""

    settings: Settings
    log: MessageLog
    store: Store
    caller: Caller
    recipe: Recipe
    clock: Clock
    background: WorkerThread  # where texts are worked on

    def __post_init__(self) -> None:
        self.retries = RetrySchedule(self.settings.breaker_cooldown)


# by event loop and key
_held_keys: WeakValueDictionary[tuple[int, Hashable, SummaryKey], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def paid_once(store: Store, recipe: Recipe, key: SummaryKey, owner: object) -> AsyncIterator[None]:
    """Hold a key while it is looked up in the store, paid for, and kept.

    One task of an event loop holds it, and one of the hosts that share the store. An `owner` whose summaries are not
    shared pays for its own.
    """
    is_shared = recipe.shared and store.name != ":memory:"
    is_claimed = recipe.maker == "model" and not recipe.asks_pool
    hosts = getattr(store, "claims", None) if is_shared and is_claimed else None  # a store may have none
    wanted = (id(asyncio.get_running_loop()), store.name if is_shared else id(owner), key)
    async with _held_keys.setdefault(wanted, asyncio.Lock()), hosts.held(key, _CLAIM) if hosts else nullcontext():
        yield


def make_recipe(settings: Settings, name: str | None, *, own: bool, redact: Redaction | None) -> Recipe:
    """Return the recipe of a session whose summarizer is called `name`; `own` for the extractive one, which reads no
    prompt.

    Unnamed summarizers are not shared between sessions. A `redact` function may say in an attribute `version` what it
    takes out.
    """
    prompts = {purpose: in_use(purpose, settings.prompts) for purpose in get_args(Prompted)}
    more, instructed = None if own else settings.summary_instructions, ("segment", "rollup", "focus")
    common = {
        "summarizer": name or f"private/{uuid.uuid4().hex}",
        "renderer": RENDERER_VERSION if own else f"{RENDERER_VERSION}, {CUTTING_VERSION}",
        **({} if own else {"grounding": GROUNDING_VERSION}),
        "redacted": redact is not None and not own and str(redact.version),
        **({"thinking": True} if settings.summarize_thinking else {}),
    }

    @cache
    def hash_of(kind: Prompted, max_tokens: int) -> str:
        asked = {"instructions": more} if more and kind in instructed else {}
        fixed = {"max_tokens": max_tokens, "kind": kind, "prompt": None if own else prompts[kind].hash}
        return recipe_hash({**common, **asked, **fixed})

    def instructions(kind: Prompted, max_tokens: int) -> str:
        text = prompts[kind].render(max_tokens=max_tokens)
        return f"{text}\n\n{more}" if more and kind in instructed else text

    return Recipe(
        maker="extractive" if own else "model",
        shared=name is not None,
        hash_of=hash_of,
        instructions=instructions,
        memory_tokens=settings.summary_max_tokens or 400,  # the default of the first release
        redact=None if own else redact,
    )

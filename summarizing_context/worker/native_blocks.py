"""The provider's own block, asked for in the background shortly before an activation that may show it.

What is sent is what the last view has sent, up to the end of a closed segment: the provider takes it as it took the
view. The block is kept in the store under what it covers. An activation that covers as much, or more, shows it in the
place of summaries, which are made all the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from summarizing_context.errors import SummarizerNotReady, SummarizerRefused
from summarizing_context.log.entries import output_hash, recipe_hash
from summarizing_context.stores.base import SummaryKey
from summarizing_context.summarizers.base import SummaryReply
from summarizing_context.summarizers.native import Compactor, NativeRequest
from summarizing_context.summarizers.resilience import ResilientSummarizer
from summarizing_context.summarizers.sdk import Fault
from summarizing_context.worker.worker import SessionWork

logger = logging.getLogger(__name__)


class NativeBlock(msgspec.Struct, frozen=True):
    """What a provider has made of the first segments of a log, as it is sent to it."""

    recipe: str  # hex; names provider, account and model
    leaves: int  # segments that it covers
    stop: int  # entries
    content: list[dict[str, Any]]

    @property
    def message(self) -> dict[str, Any]:
        """The message that carries it, in front of all others."""
        return {"role": "assistant", "content": self.content}

    @property
    def text(self) -> str:
        """What it says, where that can be read."""
        said = self.content[-1].get("content")
        return said if isinstance(said, str) else "[a block that only its provider can read]"


class Target(NamedTuple):
    """What the next block has to cover, and the key of the view that it is for."""

    provider: str
    leaves: int
    stop: int


class NativeBlocks:
    """Those of one session. The caps of `gate` count for them."""

    name = "native"
    target: Callable[[], Target | None]  # what is wanted now
    request: Callable[[Target, str], NativeRequest]  # what is sent for it, to a model
    on_trouble: Callable[[str], None]

    def __init__(self, work: SessionWork, compactor: Compactor, gate: ResilientSummarizer) -> None:
        self._work, self._compactor, self._gate = work, compactor, gate
        self._blocks, self._version = list[NativeBlock](), work.log.version  # of the log for which they are
        self._is_warned = False

    def _model(self, provider: str) -> str:
        return "/".join(provider.split("/")[1:-1]) or str(self._work.settings.model)

    def recipe_for(self, provider: str) -> str | None:
        """Return the recipe of blocks that a view may show; None for one of another provider."""
        if provider and provider.partition("/")[0] != self._compactor.provider:
            return None
        return recipe_hash({"native": 1, "by": self._compactor.recipe, "model": self._model(provider)})

    def ready(self, provider: str) -> list[NativeBlock]:
        """Return the blocks that a view may show, the one that covers most last."""
        recipe = self.recipe_for(provider) if self._version == self._work.log.version else None
        return sorted((one for one in self._blocks if one.recipe == recipe), key=lambda one: one.stop)

    @property
    def is_due(self) -> bool:
        return self.target() is not None

    async def ask(self) -> None:
        """Take the block from the store, or have the provider write it."""
        log, target = self._work.log, self.target()
        if target is None or (recipe := self.recipe_for(target.provider)) is None:
            return
        version, key = log.version, SummaryKey(output_hash("".join(log.hashes[: target.leaves])), recipe)

        async def written() -> SummaryReply:
            if self.target() != target:
                raise SummarizerNotReady("the view has changed meanwhile")
            asked = self.request(target, self._model(target.provider))
            return await self._gate.admitted(self._compactor.compact(asked), asked.tokens)

        reply = await self._work.answered_once(key, written)
        await log.foreground.thawed()
        if version == log.version:
            block = NativeBlock(recipe, target.leaves, target.stop, json.loads(reply.text))
            self._blocks, self._version = [*self.ready(target.provider)[-1:], block], version
        self._is_warned = False

    def failed(self, error: Exception) -> Exception:
        """Have views show summaries. What the provider calls a wrong request is asked for less and less often."""
        if isinstance(error, SummarizerNotReady):
            return error
        said = error.args[0] if error.args and isinstance(error.args[0], str) else type(error).__name__
        text = f"no block by {self._compactor.provider} itself: {said}. Views show summaries in its place"
        self.on_trouble(text)
        logger.log(logging.INFO if self._is_warned else logging.WARNING, "native: %s", text)
        self._is_warned = True
        return SummarizerRefused(*error.args) if error.args[:1] == (Fault.REQUEST,) else error

"""The model that writes better prompts, asked through the cassette."""

from __future__ import annotations

import anyio

from summarizing_context.errors import CassetteError
from summarizing_context.evaluation.answering.asker import Asker
from summarizing_context.evaluation.answering.plan import Asking, Chat
from summarizing_context.evaluation.cassettes import Cassette, Request
from summarizing_context.making import make_model
from summarizing_context.settings import Settings

_MOST = 2_000  # tokens of a proposal, what the model says around it included


class Proposer:
    """Puts one question after the other to the model that the settings name."""

    def __init__(self, settings: Settings, chat: Chat, cassette: Cassette) -> None:
        self._settings, self._cassette = settings, cassette
        self._asking = Asking(reader=chat, judge=chat)
        self._asked: dict[str, int] = {}

    def __call__(self, question: str) -> str:
        return anyio.run(self._ask, question)

    async def _ask(self, question: str) -> str:
        again = self._asked[question] = self._asked.get(question, -1) + 1  # the same question wants another answer
        model = make_model(self._settings, read_only=not self._cassette.sends)
        try:
            asker = Asker(model, self._cassette, self._asking)
            request = Request(
                kind="proposal", maker=asker.maker, system="", user=(question,), max_tokens=_MOST, replicate=again
            )
            reply = await asker.ask(request, assumed="")
        finally:
            await model.close()
        if reply.fault:
            raise CassetteError(f"the model gave no proposal: {reply.fault}")
        return reply.text

"""A summarizer behind a cassette, so that summaries by a model can be measured offline from recorded replies.

A context calls it as any other; retries, limits and the check of each reply stay the context's. What a context makes
good by a stand-in (a missing reply, a cap) the cassette remembers: call its `check` when the summaries are made.
"""

from __future__ import annotations

import re
from dataclasses import replace

from summarizing_context.errors import CassetteError, SummarizerRefused
from summarizing_context.evaluation.cassettes.requests import Request
from summarizing_context.evaluation.cassettes.tape import Cassette
from summarizing_context.evaluation.dry_run import filler
from summarizing_context.ports import Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.calls import told_by

_SERVER = re.compile(r";server=[0-9a-f]+")  # a cassette is replayed anywhere


class CassetteSummarizer:
    """Answers each job from the cassette, or asks `inner` and keeps what it says. Closing `inner` is its owner's."""

    def __init__(self, inner: Summarizer, cassette: Cassette) -> None:
        self._inner, self._cassette = inner, cassette
        self.maker = maker_of(inner)
        self.model = told_by(inner, "model")
        self.recipe = f"cassette/{self.maker}"

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """The recorded summary. Raises `SummarizerRefused` where there is none; `Cassette.check` says why."""
        request = Request(
            kind=job.kind,
            maker=self.maker,
            system=job.instructions,
            user=(job.content,),
            max_tokens=job.max_tokens,
        )

        async def send(clean: Request) -> str | SummaryReply:
            return await self._inner.summarize(replace(job, instructions=clean.system, content=clean.user[0]))

        failure = "no reply is recorded"
        try:
            reply = await self._cassette.reply(request, send, assumed=filler(job))
        except CassetteError:
            pass
        else:
            if not reply.fault:
                return SummaryReply(
                    reply.text, reply.input_tokens, reply.output_tokens, reply.truncated, reply.cached_tokens
                )
            failure = reply.fault
        raise SummarizerRefused(failure)


def maker_of(model: object) -> str:
    """What names a model in a cassette: its recipe without the server, else its name."""
    recipe = told_by(model, "recipe") or told_by(model, "model") or type(model).__name__
    return _SERVER.sub("", recipe)

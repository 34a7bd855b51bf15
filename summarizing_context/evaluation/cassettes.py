"""Cassettes: replies of models, kept by the hash of their request, so that evals with a model run offline.

Replies come from the file, or from a model whose replies are kept. A request is never sent twice at once, nor again
once it is kept. Retries and time limits belong to the sender. A context replaces a missing reply by a stand-in:
call `Cassette.check` after the summaries are made.

The file has one JSON line a reply, sorted. It is replaced atomically under a lock, so readers see a whole file and two
recorders keep both their replies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import anyio
import msgspec
from filelock import FileLock, Timeout

from summarizing_context.errors import (
    CassetteError,
    CassetteMissError,
    SummarizerError,
    SummarizerRefused,
)
from summarizing_context.evaluation.dry_run import assumed_summary
from summarizing_context.evaluation.requests import Caps, Reply, Request, Spent, own_secrets, scrubbed
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.redaction import Redact, redact_message
from summarizing_context.messages.validation import Message
from summarizing_context.stores.private_files import FILE, make_private_folder, replace_private
from summarizing_context.summarizers.base import Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience.caller import declared
from summarizing_context.summarizers.resilience.retries import describe_failure

Mode = Literal["replay", "record", "forecast"]
Send = Callable[[Request], Awaitable[str | SummaryReply]]  # of the request without secrets
_SAVE_AFTER = 64  # new replies; what a killed process can lose
_WAIT = 30.0  # seconds for the lock of another recorder, who holds it for one write


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    kind: str  # of the request
    reply: Reply


class Cassette:
    """Recorded replies of one file. Safe for any number of tasks of one event loop.

    `replay` only reads, and a request that is not there is `CassetteMissError`. `record` sends what is not there yet,
    and keeps the replies, at the latest on leaving the `with`. `forecast` sends nothing, and estimates what recording
    would take.
    """

    def __init__(self, path: Path, mode: Mode, *, caps: Caps, secrets: Sequence[str | None], redact: Redact | None):
        self.path, self.mode = path, mode
        self.spent = Spent()
        self._lines = _read(path) if path.exists() else {}
        self._new: dict[str, _Line] = {}  # that the file does not hold yet
        self._caps, self._secrets, self._redact = caps, own_secrets(secrets), redact
        self._sending: dict[str, anyio.Event] = {}  # by key: set once the reply is there
        self._failure: CassetteError | None = None
        self._failed: dict[str, Exception] = {}  # by key; what was asked again with success has not failed

    @classmethod
    def open(
        cls,
        path: str | Path,
        mode: Mode = "replay",
        *,
        caps: Caps | None = None,
        secrets: Sequence[str | None] = (),
        redact: Redact | None = None,
    ) -> Cassette:
        """Return the cassette of a file; only for replaying it has to be there. Raise `CassetteError`.

        `secrets` are texts to be taken out beside those that are known by their shape; `redact` takes out others.
        """
        file = Path(path)
        if mode == "replay" and not file.exists():
            raise CassetteError(f"{file}: there is no such cassette; `summarizing-context eval record` makes it")
        if mode == "record":
            _check_writable(file)
        return cls(file, mode, caps=caps or Caps(), secrets=secrets, redact=redact)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.save()

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def sends(self) -> bool:
        """Whether a model may be asked."""
        return self.mode == "record"

    def scrub(self, message: Message) -> Message:
        """Return a message as it may be sent and kept: without secrets, before anything of it is cut."""
        return redact_message(message, self.clean)

    def clean(self, text: str) -> str:
        """Return a whole text as it may be sent and kept."""
        return scrubbed(text if self._redact is None else self._redact(text), self._secrets)

    async def reply(
        self, request: Request, send: Send, *, assumed: str = "", is_usable: Callable[[Reply], bool] = lambda _: True
    ) -> Reply:
        """Return the recorded reply, or what `send` brings, kept. `assumed` is what a forecast answers.

        A recorded reply that is not usable is asked for again, except in a replay, and replaced.
        Raise `CassetteMissError`, `CassetteLimitError`, or what `send` raises; a reply that the model refused to give
        is a reply whose `fault` says so.
        """
        request = request.clean(self._secrets)
        key = request.key
        while (waiting := self._sending.get(key)) is not None:
            await waiting.wait()
        kept = self._lines.get(key)
        if kept is not None and (self.mode == "replay" or is_usable(kept.reply)):
            self.spent.replayed += 1
            return kept.reply
        try:
            if self.mode == "replay":
                raise CassetteMissError(
                    f"{self.path}: no reply to the {request.kind} request {key[:12]} is recorded; its messages, "
                    "prompt, model or limits are new; record what is missing with `summarizing-context eval record`"
                )
            if self._failure is not None:
                raise self._failure  # nothing more is paid for
            self.spent.admit(request, Caps() if self.mode == "forecast" else self._caps)
            if self.mode == "forecast":
                reply = Reply(assumed, output_tokens=estimate_text(assumed) if assumed else request.max_tokens)
                self._lines[key] = _Line(key, request.kind, reply)
            else:
                reply = await self._sent(request, key, send)
                self._new[key] = self._lines[key] = _Line(key, request.kind, reply)
                if len(self._new) >= _SAVE_AFTER:
                    self.save()
        except CassetteError as error:
            self._failure = self._failure or error
            raise
        self.spent.correct(request, reply)
        return reply

    async def _sent(self, request: Request, key: str, send: Send) -> Reply:
        done = self._sending[key] = anyio.Event()
        try:
            answer = await send(request)
        except SummarizerRefused as error:  # asked again, it would refuse again
            reply = Reply("", fault=str(error))
        except Exception as error:
            self._failed[key] = error
            self.spent.take_back(request)
            raise
        else:
            fields = ("text", "input_tokens", "output_tokens", "cached_tokens", "truncated")
            told = {name: getattr(answer, name) for name in fields} if not isinstance(answer, str) else {"text": answer}
            reply = Reply(**told)
        finally:
            del self._sending[key]
            done.set()
        self._failed.pop(key, None)
        return reply.clean(self._secrets)

    def check(self) -> None:
        """Raise what a caller in between has swallowed: a miss, a cap that was reached, a call that failed for good."""
        if self._failure is not None:
            raise self._failure
        if self._failed:
            error = next(iter(self._failed.values()))
            why = ", ".join((describe_failure(error), *getattr(error, "__notes__", ())))
            raise CassetteError(
                f"{self.path}: {len(self._failed)} requests were not recorded ({why}); "
                "what was recorded is kept, run it again to go on"
            ) from error

    def save(self) -> None:
        """Bring new replies into the file, beside what others have put there. Raise `CassetteError`."""
        if not self._new:
            return
        _check_writable(self.path)
        try:
            with FileLock(f"{self.path}.lock", timeout=_WAIT, mode=FILE):
                lines = {**(_read(self.path) if self.path.exists() else {}), **self._new}
                content = b"".join(msgspec.json.encode(lines[key]) + b"\n" for key in sorted(lines))
                replace_private(self.path, content)
        except Timeout as error:
            raise CassetteError(
                f"{self.path}: another process holds {self.path.name}.lock; end it, and record again"
            ) from error
        except OSError as error:
            raise CassetteError(
                f"{self.path}: the cassette cannot be written ({error.strerror}); name another file, or correct the "
                "rights"
            ) from error
        self._lines, self._new = lines, {}


def _read(path: Path) -> dict[str, _Line]:
    """Return what a cassette holds, by key. Raise `CassetteError` that names file and line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CassetteError(
            f"{path}: the cassette cannot be read ({error.strerror}); check the path and its rights"
        ) from error
    found: dict[str, _Line] = {}
    for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
        try:
            one = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CassetteError(
                f"{path}:{number}: not a line of a cassette ({error}); bring the file back, or delete it and record "
                "again"
            ) from error
        found[one.key] = one
    return found


def _check_writable(path: Path) -> None:
    """Raise `CassetteError` where no file could be put, before anything is paid for."""
    try:
        make_private_folder(path.parent)
        if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
            raise CassetteError(f"{path}: no cassette can be written here; name another file, or correct the rights")
    except OSError as error:
        raise CassetteError(f"{path}: no cassette can be written here ({error.strerror}); name another file") from error


class CassetteSummarizer:
    """Answers each job from the cassette, or asks `inner` and keeps what it says. Closing `inner` is its owner's."""

    def __init__(self, inner: Summarizer, cassette: Cassette) -> None:
        self._inner, self._cassette = inner, cassette
        self.maker = maker_of(inner)
        self.model = declared(inner, "model")
        self.recipe = f"cassette/{self.maker}"

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the recorded summary. Raise `SummarizerRefused` where there is none; `Cassette.check` says why."""
        request = Request(
            kind=job.kind, maker=self.maker, system=job.instructions, user=(job.content,), max_tokens=job.max_tokens
        )

        async def send(clean: Request) -> str | SummaryReply:
            try:
                return await self._inner.summarize(replace(job, instructions=clean.system, content=clean.user[0]))
            except SummarizerError as error:
                error.add_note(f"{self.model} at {declared(self._inner, 'address')}")
                raise

        try:
            reply = await self._cassette.reply(request, send, assumed=assumed_summary(job))
        except CassetteError:
            raise SummarizerRefused("no reply is recorded") from None
        if reply.fault:
            raise SummarizerRefused(reply.fault)
        return SummaryReply(reply.text, reply.input_tokens, reply.output_tokens, reply.truncated, reply.cached_tokens)


def maker_of(model: object) -> str:
    """Return what names a model in a cassette: its recipe without the server, else its name."""
    recipe = declared(model, "recipe") or declared(model, "model") or type(model).__name__
    return re.sub(r";server=[0-9a-f]+", "", recipe)  # a cassette is replayed anywhere

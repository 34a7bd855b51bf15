"""Cassettes: recorded requests to models and their replies, so that evals with a model run offline.

Replies come from the file, or from a model whose replies are kept. A request is never sent twice at once, nor again
once it is kept. Retries and time limits belong to the sender. A context replaces a missing reply by a stand-in:
call `Cassette.check` after the summaries are made.

The file has sorted JSON lines: format and version, then long texts, then the recorded requests. It is replaced
atomically under a lock, so readers see a whole file and two recorders keep both their replies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import anyio
import msgspec
from filelock import FileLock, Timeout

from summarizing_context.errors import (
    CassetteError,
    CassetteLimitError,
    CassetteMissError,
    SummarizerError,
    SummarizerRefused,
)
from summarizing_context.evaluation.dry_run import assumed_summary
from summarizing_context.evaluation.requests import (
    Caps,
    Exchange,
    Reply,
    Request,
    Spent,
    canonical,
    own_secrets,
    scrubbed,
    text_hash,
)
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.redaction import Redact, redact_message
from summarizing_context.messages.validation import Message
from summarizing_context.stores.private_files import FILE, make_private_folder, replace_private
from summarizing_context.summarizers.base import Summarizer, SummaryJob, SummaryReply
from summarizing_context.summarizers.resilience.caller import declared
from summarizing_context.summarizers.resilience.retries import describe_failure

Mode = Literal["replay", "record", "forecast"]
Send = Callable[[Request], Awaitable[str | SummaryReply]]  # of the request as it is kept, without secrets
_SAVE_AFTER = 64  # new replies; what a killed process can lose


class Cassette:
    """Recorded requests and replies of one file. Safe for any number of tasks of one event loop.

    `replay` only reads, and a request that is not there is `CassetteMissError`. `record` sends what is not there yet,
    and keeps the replies, at the latest on leaving the `with`. `forecast` sends nothing, and estimates what recording
    would take.
    """

    def __init__(
        self,
        path: Path,
        mode: Mode,
        exchanges: dict[str, Exchange],
        *,
        caps: Caps,
        today: Callable[[], str],
        secrets: Sequence[str | None],
        redact: Redact | None,
    ) -> None:
        self.path, self.mode = path, mode
        self.spent = Spent()
        self._exchanges = exchanges
        self._caps, self._today = caps, today
        self._secrets = own_secrets(secrets)
        self._redact = redact
        self._new: dict[str, Exchange] = {}
        self._unsaved = 0
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
        today: Callable[[], str] | None = None,
        secrets: Sequence[str | None] = (),
        redact: Redact | None = None,
    ) -> Cassette:
        """The cassette of a file; only for replaying it has to be there. Raises `CassetteError`.

        `secrets` are texts to be taken out beside those that are known by their shape; `redact` takes out
        others; `today` gives the day.
        """
        file = Path(path)
        if mode == "replay" and not file.exists():
            raise CassetteError(f"{file}: there is no such cassette; `summarizing-context eval record` makes it")
        if mode == "record":
            check_writable(file)
        exchanges = read_exchanges(file) if file.exists() else {}
        return cls(file, mode, exchanges, caps=caps or Caps(), today=today or _today, secrets=secrets, redact=redact)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.save()

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def sends(self) -> bool:
        """Whether a model may be asked."""
        return self.mode == "record"

    def scrub(self, message: Message) -> Message:
        """A message as requests about it may be kept: without secrets, before anything of it is cut."""
        return redact_message(message, self.clean)

    def clean(self, text: str) -> str:
        """A whole text as it may be kept."""
        return scrubbed(text if self._redact is None else self._redact(text), self._secrets)

    async def reply(
        self,
        request: Request,
        send: Send,
        *,
        assumed: str = "",
        is_usable: Callable[[Reply], bool] = lambda _: True,
    ) -> Reply:
        """The reply to a request: the recorded one, or what `send` brings, kept. `assumed` is what a forecast answers.

        A recorded reply that is not usable is asked for again, except in a replay, and replaced.
        Raises `CassetteMissError`, `CassetteLimitError`, or what `send` raises; a reply that the model refused to give
        is a reply whose `fault` says so.
        """
        request = request.clean(self._secrets)
        key = request.key
        while (waiting := self._sending.get(key)) is not None:
            await waiting.wait()
        if (kept := self._exchanges.get(key)) is not None and (self.mode == "replay" or is_usable(kept.reply)):
            self.spent.replayed += 1
            return kept.reply
        if self.mode == "replay":
            raise self._noted(self._miss(request, key))
        if self._failure is not None:
            raise self._failure  # nothing more is paid for
        try:
            self.spent.admit(request, Caps() if self.mode == "forecast" else self._caps)
        except CassetteLimitError as error:
            raise self._noted(error) from None
        if self.mode == "forecast":
            return self._forecast(request, key, assumed)
        return await self._sent(request, key, send)

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
        """Bring new replies into the file."""
        if self._new and self._unsaved:
            self._exchanges = {**save_exchanges(self.path, self._new), **self._new}
            self._unsaved = 0

    async def _sent(self, request: Request, key: str, send: Send) -> Reply:
        done = self._sending[key] = anyio.Event()
        try:
            reply = (await _answer(send, request)).clean(self._secrets)
        except Exception as error:
            self._failed[key] = error
            self.spent.take_back(request)
            raise
        finally:
            del self._sending[key]
            done.set()
        self._failed.pop(key, None)
        self.spent.correct(request, reply)
        self._keep(request, key, reply)
        return reply

    def _keep(self, request: Request, key: str, reply: Reply) -> None:
        self._new[key] = self._exchanges[key] = Exchange(request, reply, self._today())
        self._unsaved += 1
        if self._unsaved >= _SAVE_AFTER:
            try:
                self.save()
            except CassetteError as error:
                raise self._noted(error) from None

    def _forecast(self, request: Request, key: str, assumed: str) -> Reply:
        reply = Reply(assumed, output_tokens=estimate_text(assumed) if assumed else request.max_tokens)
        self.spent.correct(request, reply)
        self._exchanges[key] = Exchange(request, reply, "")
        return reply

    def _noted(self, failure: CassetteError) -> CassetteError:
        self._failure = self._failure or failure
        return failure

    def _miss(self, request: Request, key: str) -> CassetteMissError:
        return CassetteMissError(
            f"{self.path}: no reply to the {request.kind} request {key[:12]} is recorded; its messages, prompt, model "
            "or limits are new; record what is missing with `summarizing-context eval record`"
        )


async def _answer(send: Send, request: Request) -> Reply:
    """What a model says, refusals included: asked again, it would refuse again."""
    try:
        answer = await send(request)
    except SummarizerRefused as error:
        return Reply("", fault=str(error))
    if isinstance(answer, str):
        return Reply(answer)
    return Reply(answer.text, answer.input_tokens, answer.output_tokens, answer.cached_tokens, answer.truncated)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


_SERVER = re.compile(r";server=[0-9a-f]+")  # a cassette is replayed anywhere


class CassetteSummarizer:
    """Answers each job from the cassette, or asks `inner` and keeps what it says. Closing `inner` is its owner's."""

    def __init__(self, inner: Summarizer, cassette: Cassette) -> None:
        self._inner, self._cassette = inner, cassette
        self.maker = maker_of(inner)
        self.model = declared(inner, "model")
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
            try:
                return await self._inner.summarize(replace(job, instructions=clean.system, content=clean.user[0]))
            except SummarizerError as error:
                error.add_note(f"{self.model} at {declared(self._inner, 'address')}")
                raise

        failure = "no reply is recorded"
        try:
            reply = await self._cassette.reply(request, send, assumed=assumed_summary(job))
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
    recipe = declared(model, "recipe") or declared(model, "model") or type(model).__name__
    return _SERVER.sub("", recipe)


VERSION = 1

_LONG = 300  # characters of a text that is written once, apart

_WAIT = 30.0  # seconds for the lock of another recorder, who holds it for one write


class _Head(msgspec.Struct, tag_field="line", tag="cassette", forbid_unknown_fields=True):
    version: int


class _Text(msgspec.Struct, tag_field="line", tag="text", forbid_unknown_fields=True):
    hash: str
    text: str


class _StoredRequest(msgspec.Struct, forbid_unknown_fields=True):
    kind: str
    maker: str
    system: str | dict[str, str]
    user: list[str | dict[str, str]]
    max_tokens: int
    prompt: str
    replicate: int


class _Line(msgspec.Struct, tag_field="line", tag="take", forbid_unknown_fields=True):
    key: str
    request: _StoredRequest
    reply: Reply
    recorded_at: str


_decoder = msgspec.json.Decoder(_Head | _Text | _Line)


def read_exchanges(path: Path) -> dict[str, Exchange]:
    """What a cassette holds, by key. Raises `CassetteError` that names file and line."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CassetteError(
            f"{path}: the cassette cannot be read ({error.strerror}); check the path and its rights"
        ) from error
    lines = content.split(b"\n")
    if lines.pop():
        raise CassetteError(
            f"{path}:{len(lines) + 1}: the last line is cut off; bring the file back, or delete it and record again"
        )
    texts: dict[str, str] = {}
    exchanges: dict[str, Exchange] = {}
    for number, line in enumerate(lines, 1):
        _read_line(_parsed(line, number, path), f"{path}:{number}", texts, exchanges)
    if not lines:
        raise CassetteError(f"{path}:1: the file is empty; delete it and record again")
    return exchanges


def save_exchanges(path: Path, exchanges: Mapping[str, Exchange]) -> dict[str, Exchange]:
    """Put `exchanges` into the file beside what it holds by now; what it holds then."""
    check_writable(path)
    try:
        with FileLock(f"{path}.lock", timeout=_WAIT, mode=FILE):
            merged = {**(read_exchanges(path) if path.exists() else {}), **exchanges}
            replace_private(path, b"".join(line + b"\n" for line in _lines(merged)))
    except Timeout as error:
        raise CassetteError(f"{path}: another process holds {path.name}.lock; end it, and record again") from error
    except OSError as error:
        raise CassetteError(
            f"{path}: the cassette cannot be written ({error.strerror}); name another file, or correct the rights"
        ) from error
    return merged


def check_writable(path: Path) -> None:
    """Raise `CassetteError` where no file could be put, before anything is paid for."""
    try:
        make_private_folder(path.parent)
        if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
            raise CassetteError(f"{path}: no cassette can be written here; name another file, or correct the rights")
    except OSError as error:
        raise CassetteError(f"{path}: no cassette can be written here ({error.strerror}); name another file") from error


def _parsed(line: bytes, number: int, path: Path) -> _Head | _Text | _Line:
    try:
        found: _Head | _Text | _Line = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CassetteError(
            f"{path}:{number}: not a line of a cassette ({error}); bring the file back, or delete it and record again"
        ) from error
    if isinstance(found, _Head) != (number == 1):
        raise CassetteError(f"{path}:{number}: a cassette begins with the one line that names its version")
    return found


def _read_line(line: _Head | _Text | _Line, where: str, texts: dict[str, str], exchanges: dict[str, Exchange]) -> None:
    if isinstance(line, _Head):
        if line.version != VERSION:
            raise CassetteError(
                f"{where}: version {line.version}; this version of the package reads version {VERSION}; record again"
            )
    elif isinstance(line, _Text):
        if line.hash in texts or text_hash(line.text) != line.hash:
            raise CassetteError(f"{where}: the text was edited, or is there twice; record again what uses it")
        texts[line.hash] = line.text
    else:
        request = _request(line.request, where, texts)
        if line.key in exchanges:
            raise CassetteError(f"{where}: the key {line.key[:12]} stands there twice; delete one of the lines")
        if request.key != line.key:
            raise CassetteError(f"{where}: the request was edited, the key {line.key[:12]} is another's; record again")
        exchanges[line.key] = Exchange(request, line.reply, line.recorded_at)


def _request(stored: _StoredRequest, where: str, texts: Mapping[str, str]) -> Request:
    def whole(part: str | dict[str, str]) -> str:
        if isinstance(part, str):
            return part
        if part.keys() != {"hash"} or part["hash"] not in texts:
            raise CassetteError(f"{where}: a text of the request is not in the file; bring it back, or record again")
        return texts[part["hash"]]

    fields = msgspec.structs.asdict(stored)
    return Request(**{**fields, "system": whole(stored.system), "user": tuple(map(whole, stored.user))})


def _lines(exchanges: Mapping[str, Exchange]) -> Iterator[bytes]:
    yield canonical(_Head(VERSION))
    shared = {text_hash(text): text for exchange in exchanges.values() for text in _long_texts(exchange.request)}
    yield from (canonical(_Text(hash, shared[hash])) for hash in sorted(shared))
    for key in sorted(exchanges):
        exchange = exchanges[key]
        stored = _StoredRequest(**_folded(exchange.request))
        yield canonical(_Line(key, stored, exchange.reply, exchange.recorded_at))


def _long_texts(request: Request) -> Iterable[str]:
    return (text for text in (request.system, *request.user) if len(text) >= _LONG)


def _folded(request: Request) -> dict[str, Any]:
    """The fields of a request, its long texts by their hashes."""

    def short(text: str) -> str | dict[str, str]:
        return {"hash": text_hash(text)} if len(text) >= _LONG else text

    return {**asdict(request), "system": short(request.system), "user": [short(part) for part in request.user]}

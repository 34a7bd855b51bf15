"""Cassettes: replies of models, kept by the hash of their request, so that evals with a model run offline.

Replies come from the file, or from a model whose replies are kept. A request is never sent twice at once, nor again
once it is kept. A context replaces a missing reply by a stand-in: call `Cassette.check` after the summaries are made.

Secrets are taken out of what is sent and kept, by their shape and by the name before them. Others may remain.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import re
import zlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, Literal, TypeVar

import anyio
import msgspec

from summarizing_context import errors
from summarizing_context.messages.reading import Message
from summarizing_context.messages.redaction import REDACTED, redact_message, without_known_secrets
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.models import dollars, load_models
from summarizing_context.settings import PROVIDERS, Settings
from summarizing_context.stores.private_files import make_private_folder, open_private, replace_private
from summarizing_context.summarizers.base import SummaryJob, SummaryReply
from summarizing_context.summarizers.providers import make_model
from summarizing_context.summarizers.resilience import call_within, declared, describe_failure, retry_after_of
from summarizing_context.summarizers.sdk import Fault, SdkSummarizer
from summarizing_context.summarizers.verification import readable

Mode = Literal["replay", "record", "forecast"]
T = TypeVar("T")

_OTHER = "name another file, or correct the rights"
LASTING = (Fault.KEY, Fault.NOT_FOUND, Fault.REQUEST, Fault.REDIRECT)  # a wrong key stays wrong


def scrubbed(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with `REDACTED` in the place of each secret; `secrets` are texts that are known to be one."""
    text = readable(text)
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return without_known_secrets(text)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model."""

    kind: str  # segment, rollup, reader, judge
    maker: str  # provider/model, and what else names how it is asked
    system: str
    user: tuple[str, ...]  # the parts of the one message
    max_tokens: int
    replicate: int = 0  # asking the same again is another request

    @property
    def key(self) -> str:
        """SHA-256, hex, of all that can change the answer."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model answered."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    truncated: bool = False
    fault: str = ""  # why it is no answer: the model declined, or said nothing


Usable = Callable[[Reply], bool]
Send = Callable[[Request], Awaitable[str | SummaryReply]]  # of the request without secrets


@dataclass
class Spent:
    """What one model was asked for since a cassette was opened: of a forecast what is not recorded yet."""

    calls: int = 0
    input_tokens: int = 0  # as the provider reported them, else estimated
    output_tokens: int = 0
    cached_tokens: int = 0
    recorded: int = 0  # answered from the cassette
    by_kind: dict[str, int] = field(default_factory=dict)  # calls
    # What that costs, as `prices_of` knows it:
    model: str = ""
    address: str = ""
    estimated_cost: float | None = None  # US dollars
    priced: str = ""  # prices for a million tokens, and their date

    def with_proposals(self, number: int) -> int:
        """Return the calls with so many proposals, each of which is asked for and tried as what was priced."""
        return self.calls + number * (self.calls + self.recorded + 1)

    def words(self, form: str = "about {:,} requests") -> str:
        """Return all of it in a sentence."""
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.by_kind.items()))
        asked = form.format(self.calls) + (f" ({kinds})" if kinds else "")
        tokens = f"{self.input_tokens:,} input and {self.output_tokens:,} output tokens"
        cost = f"{dollars(self.estimated_cost)} ({self.priced})" if self.priced else "no price is known"
        known = f"; {self.recorded:,} more need no call" if self.recorded else ""
        return f"{self.model} at {self.address}: {asked}, {tokens}, {cost}{known}."


class Cassette(AbstractContextManager["Cassette"]):
    """Recorded replies of one file, packed where its name ends in `.gz`. Safe for the tasks of one event loop.

    `replay` only reads, and a request that is not there is `CassetteMissError`. `record` sends what is not there yet,
    `max_calls` at most, and writes each reply as it comes; on leaving the `with` the file is sorted. `forecast` sends
    nothing, and estimates what recording would take. `secrets` are texts to be taken out as well.
    """

    def __init__(
        self, path: Path, mode: Mode = "replay", *, max_calls: int | None = None, secrets: Iterable[str | None] = ()
    ) -> None:
        if mode == "replay" and not path.exists():
            lacking = "there are no recorded replies; a run with the key of a model makes them"
            raise errors.CassetteError(f"{path}: {lacking}")
        self.path, self.mode, self.sends = path, mode, mode == "record"
        if self.sends:  # before anything is paid for
            try:
                make_private_folder(path.parent)
                with open_private(path, append=True):
                    pass
            except OSError as error:
                raise errors.CassetteError(f"{path}: no cassette can be written here; {_OTHER}") from error
        self.spent: defaultdict[str, Spent] = defaultdict(Spent)  # by model, as `provider/model`
        variables = (*(f"{name.upper()}_API_KEY" for name in PROVIDERS), "ANTHROPIC_AUTH_TOKEN")
        known = {*map(os.environ.get, variables), *secrets}
        # What is shorter is a word, and would be taken out everywhere.
        long = sorted((one for one in known if one and len(one) >= 12), key=lambda one: (-len(one), one))
        self.clean = partial(scrubbed, secrets=long)  # a whole text, as it may be sent and kept
        self._max_calls = max_calls if self.sends else None
        self.missed: set[str] = set()  # keys of a replay that have no reply
        self._lines = _read(path)
        self._asking: defaultdict[str, anyio.Lock] = defaultdict(anyio.Lock)  # by key
        self.failure: errors.CassetteError | None = None  # why nothing more is sent
        self.watch: Callable[[], None] = lambda: None  # called with each reply of a model
        self._failed: dict[str, Exception] = {}  # by key; what was asked again with success has not failed
        self._is_answered = False  # a request of this recording

    def __exit__(self, *_: object) -> None:  # sorted, equal recordings are equal bytes
        if self.sends and self.calls:
            self._lines = _read(self.path)  # also what others have recorded
            replace_private(self.path, self._packed(sorted(self._lines.items())))

    @property
    def calls(self) -> int:
        """Calls since it was opened."""
        return sum(one.calls for one in self.spent.values())

    def scrub(self, message: Message) -> Message:
        """Return a message as it may be sent and kept: without secrets, before anything of it is cut."""
        return redact_message(message, self.clean)

    async def reply(
        self, request: Request, send: Send, *, assumed: str = "", is_usable: Usable = lambda _: True
    ) -> Reply:
        """Return the recorded reply, or what `send` brings, kept; in a forecast the `assumed` one. A recorded reply
        that is not usable is asked for again, except in a replay. Raise `CassetteMissError`, `CassetteLimitError`, or
        what `send` raises; a reply that the model refused to give is a reply whose `fault` says so."""
        system, *user = map(self.clean, (request.system, *request.user))
        request = replace(request, system=system, user=tuple(user))
        key, spent = request.key, self.spent[request.maker.partition(";")[0]]
        async with self._asking[key]:
            kept = self._lines.get(key)
            if kept is not None and (self.mode == "replay" or is_usable(kept)):
                spent.recorded += 1
                return kept
            if self.mode == "replay":
                self.missed.add(key)
                missing = f"{self.path}: no reply to the {request.kind} request {key[:12]} is recorded; its messages, "
                missing += "prompt, model or limits are new; name its model and key, and the same command records it"
                self.failure = self.failure or errors.CassetteMissError(missing)
            elif self.failure is None and self._max_calls is not None and self.calls >= self._max_calls:
                capped = f"stopped after {self.calls:,} calls: the cap max_calls is reached; replies are kept"
                self.failure = errors.CassetteLimitError(f"{capped}, run it again to go on")
            if self.failure is not None:  # nothing more is paid for
                raise self.failure
            spent.calls += 1
            spent.by_kind[request.kind] = spent.by_kind.get(request.kind, 0) + 1
            try:
                if self.mode == "forecast":
                    reply = Reply(assumed, output_tokens=estimate_text(assumed) if assumed else request.max_tokens)
                else:
                    told = await send(request)
                    told = SummaryReply(told) if isinstance(told, str) else told
                    reply = Reply(**asdict(replace(told, text=self.clean(told.text))))  # as a replay will have it
            except errors.SummarizerRefused as error:  # asked again, it would refuse again
                reply = Reply("", fault=str(error))
            except Exception as error:
                self._failed[key] = error  # it stays a call, and costs no tokens
                is_lasting = bool(error.args) and error.args[0] in (Fault.CONNECTION, *LASTING)
                if is_lasting and not self._is_answered and self.calls >= 3:
                    why = f"no request was answered ({_described(error)}), so nothing more is sent"
                    self.failure = errors.CassetteError(f"{self.path}: {why}; mend that, and run it again")
                    self.failure.__cause__ = error
                raise
            self._is_answered = True
            self._failed.pop(key, None)
            self._lines[key] = reply
            if self.sends:  # behind the others, so that a process that is killed loses none that it has
                size = self.path.stat().st_size
                try:
                    with open_private(self.path, append=True) as file:
                        file.write(self._packed([(key, reply)]))
                except OSError as error:  # such as a full disk: no half of a line stays
                    os.truncate(self.path, size)
                    why = f"the cassette cannot be written ({error.strerror or error}); {_OTHER}"
                    self.failure = errors.CassetteError(f"{self.path}: {why}")
                    raise self.failure from error
        estimate = estimate_text(request.system) + estimate_text("\n\n".join(request.user))
        spent.input_tokens += estimate if reply.input_tokens is None else reply.input_tokens
        spent.output_tokens += reply.output_tokens or 0
        spent.cached_tokens += reply.cached_tokens or 0
        self.watch()
        return reply

    def check(self) -> None:
        """Raise what a caller in between has swallowed: a miss, a cap that was reached, a call that failed for good."""
        if self.failure is not None:
            raise self.failure
        for error in self._failed.values():
            lost = f"{len(self._failed)} requests were not recorded ({_described(error)}); what was recorded is kept"
            raise errors.CassetteError(f"{self.path}: {lost}, run it again to go on") from error

    def _packed(self, lines: Sequence[tuple[str, Reply]]) -> bytes:
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        return gzip.compress(data, mtime=0) if self.path.suffix == ".gz" else data


def _described(error: Exception) -> str:
    return ", ".join((describe_failure(error), *getattr(error, "__notes__", ())))


def _read(path: Path) -> dict[str, Reply]:
    """Return what a cassette holds, by key; nothing where there is none. Raise `CassetteError` that names the line."""
    number, found = 0, dict[str, Reply]()
    try:
        data = path.read_bytes() if path.exists() else b""
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).removesuffix(b"\n")
        for number, line in enumerate(lines.split(b"\n"), 1):  # noqa: B007
            if line.strip():
                found.update([msgspec.json.decode(line, type=tuple[str, Reply])])
    except (msgspec.DecodeError, UnicodeDecodeError, EOFError, zlib.error, OSError) as error:
        mend = "take it out, or bring the file back: the same command asks for what is missing"
        why = f"not a line of a cassette ({error}); {mend}"
        raise errors.CassetteError(f"{path}:{number}: {why}") from error
    return found


class RecordedModel(AbstractAsyncContextManager["RecordedModel"]):
    """One model, asked through the cassette; also a summarizer of a context. It is that of settings, closed on leaving,
    a given one, or a name that is only replayed. Where each summary `is_needed`, a refusal stops the recording."""

    def __init__(self, named: Settings | SdkSummarizer | str, cassette: Cassette, *, is_needed: bool = False) -> None:
        replayed: Any = SimpleNamespace(model=str(named).partition(";")[0], recipe=named)
        given = make_model(named, read_only=not cassette.sends) if isinstance(named, Settings) else named
        model: SdkSummarizer = replayed if isinstance(given, str) else given
        self.model, address = declared(model, "model") or type(model).__name__, declared(model, "address")
        self.where = f"{self.model} at {address}" if address else self.model
        # A recipe names the server, and a cassette is replayed anywhere.
        self.maker = re.sub(r";server=[0-9a-f]+", "", declared(model, "recipe") or self.model)
        self.recipe = f"cassette/{self.maker}"
        self._model, self._cassette, self._is_needed = model, cassette, is_needed
        self._is_own, self._timeout = isinstance(named, Settings), getattr(named, "call_timeout", 60.0)

    async def __aexit__(self, *_: object) -> None:
        if self._is_own:
            await self._model.close()

    async def ask(self, request: Request, *, assumed: str = "", is_usable: Usable = lambda _: True) -> Reply:
        """Return the reply to a request, asked again while that may help. Raise as `Cassette.reply` does."""
        return await self._cassette.reply(request, partial(self._sent, None, 3), assumed=assumed, is_usable=is_usable)

    async def summarize(self, job: SummaryJob, *, kind: str = "") -> SummaryReply:
        """Return the recorded summary. Raise `SummarizerRefused` where there is none; `Cassette.check` says why. A
        context tries again by itself; who asks without one names a `kind`, and here it is tried again."""
        request = Request(kind or job.kind, self.maker, job.instructions, (job.content,), job.max_tokens)
        send, is_usable = partial(self._sent, job, 3 if kind else 1), lambda kept: not (kept.fault and self._is_needed)
        try:
            reply = await self._cassette.reply(request, send, assumed=assumed_summary(job), is_usable=is_usable)
        except errors.CassetteError:
            raise errors.SummarizerRefused("no reply is recorded") from None
        if reply.fault:
            if self._is_needed:
                about = f"{self.where} gave no {request.kind} summary ({reply.fault}); the same command asks again"
                failure = errors.CassetteError(f"{self._cassette.path}: {about}")
                self._cassette.failure = self._cassette.failure or failure
            raise errors.SummarizerRefused(reply.fault)
        return SummaryReply(reply.text, reply.input_tokens, reply.output_tokens, reply.truncated, reply.cached_tokens)

    async def _sent(self, job: SummaryJob | None, attempts: int, clean: Request) -> str | SummaryReply:
        attempt = 1
        while True:
            try:
                if job is not None:
                    return await self._model.summarize(replace(job, instructions=clean.system, content=clean.user[0]))
                asked = self._model.complete(clean.system, "\n\n".join(clean.user), clean.max_tokens)
                return await call_within(self._timeout, asked)
            except errors.SummarizerError as error:
                error.add_note(self.where)
                is_answer = isinstance(error, errors.SummarizerRefused)
                if is_answer or attempt == attempts or (error.args and error.args[0] in LASTING):
                    raise
                await anyio.sleep(max(random.uniform(0.5, 2.0**attempt), retry_after_of(error)))
                attempt += 1


def assumed_summary(job: SummaryJob) -> str:
    """Return a lawful summary: half of a source of more than 200 tokens, at most the cap; no rules, no memories. Other
    prompts get other ones, for what follows from replies, such as merges, is asked for with each."""
    if job.kind in ("rules", "memory"):
        return "none" if job.kind == "rules" else "[]"
    most = job.max_tokens if job.source_tokens <= 200 else min(job.max_tokens, job.source_tokens // 2)
    letters = "".join(filter(str.isalpha, hashlib.sha256(job.instructions.encode()).hexdigest()))  # figures are checked
    line = f"- step {{}} of the part {job.range_hash[:8]} was done as {letters[:6]}"
    lines = max(1, (most - estimate_text("## Done")) // estimate_text(line.format(10) + "\n"))
    return "\n".join(["## Done", *map(line.format, range(1, lines + 1))])


# What models cost


def prices_of(spent: Mapping[str, Spent], models: Sequence[Settings]) -> list[Spent]:
    """Return what models were asked for, with its price."""
    found: dict[str, Spent] = {}
    for settings in models:
        name, address = f"{settings.summarizer}/{settings.model}", make_model(settings, read_only=True).address
        one = replace(spent.get(name, Spent()), model=str(settings.model), address=address)
        if (price := load_models(settings.prices).price_of(one.model)) is not None:
            one.estimated_cost = round(price.cost(one.input_tokens, one.output_tokens, one.cached_tokens), 6)
            since = price.as_of or price.source
            one.priced = f"${price.input:g} in, ${price.output:g} out for a million, as of {since}"
        found[name] = one
    return [*found.values()]


def price_document(spent: Sequence[Spent], proposals: int = 0, most: int | None = None) -> dict[str, Any]:
    """Return prices as JSON values, with the calls after which recording stops."""
    rows, each = [asdict(one) for one in spent], [one.estimated_cost for one in spent]
    total = None if None in each else round(sum(filter(None, each)), 6)
    told = {"estimated_cost": total, "proposals": proposals, "calls_at_most": most}
    return {**(rows[0] if len(rows) == 1 else {"models": rows}), **told}


def price_lines(spent: Sequence[Spent], proposals: int = 0, most: int | None = None) -> list[str]:
    """Return prices in words, at the end how they were estimated. The first model writes the proposals."""
    first, found, cost = spent[0], [one.words() for one in spent], price_document(spent)["estimated_cost"]
    if proposals:
        calls, some = first.with_proposals(proposals), f"{proposals:,} proposal{'s' * (proposals > 1)}"
        found.append(f"{some}, each tried on all sessions: about {calls:,} calls")
        if first.estimated_cost is not None and first.calls:  # a proposal costs about what its trial does
            found[-1] += f", {dollars(first.estimated_cost * calls / first.calls)}"
        found[-1] += " in all."
    if cost is not None:
        found.append(f"In all {dollars(cost)}{' without the proposals' if proposals else ''}.")
    if most is not None:
        found.append(f"What follows depends on the replies: {most:,} calls at most, or --max-calls (max_calls).")
    found.append("Tokens by the built-in estimate, replies as long as their cap; hidden thinking is not counted.")
    return found


class PricedWork(Generic[T]):
    """Work with the replies in a file, which is priced, then recorded: `work` is called with an open cassette, first
    with one that sends nothing, where it may return None to be called again. `spent` says by model what is missing, or
    what was recorded."""

    def __init__(self, file: Path | str, models: Sequence[Settings], work: Callable[[Cassette], T]) -> None:
        self._models, self._work = models, work
        self._opened = partial(Cassette, Path(file), secrets=[one.api_key for one in models])
        self._assumed, self._is_there = work(replies := self._opened("forecast")), Path(file).exists()
        self.spent = prices_of(replies.spent, models)

    def replayed(self, *, follows: bool = False) -> T | None:
        """Return what it comes to if all is recorded, else None. What `follows` from replies may not be known yet."""
        if not self._is_there or any(one.calls for one in self.spent):
            return None
        with suppress(errors.CassetteMissError):
            is_whole = not follows and self._assumed is not None  # no reply was assumed, so that was the run
            return self._assumed if is_whole else self._work(self._opened("replay"))
        return None

    def record(self, max_calls: int | None = None, watch: Callable[[], None] = lambda: None) -> T:
        """Return what it comes to, with all that is missing asked for and kept. `watch` is called with each reply."""
        with self._opened("record", max_calls=max_calls) as replies:
            replies.watch = watch
            done = self._work(replies)
        self.spent = prices_of(replies.spent, self._models)
        return done

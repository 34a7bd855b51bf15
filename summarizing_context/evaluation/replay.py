"""Replay of transcripts: add messages one by one, take views, judge them by the laws, count figures. The demo is the
replay of the bundled session: what its last view still answers, and what it cost."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.resources import files
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from textwrap import shorten
from typing import Any, TypeVar

import anyio

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, TranscriptError
from summarizing_context.evaluation.cassettes import Cassette, RecordedModel
from summarizing_context.evaluation.laws import Judge, canonical
from summarizing_context.log.message_log import BoundThinking
from summarizing_context.messages.reading import Message, message_text_parts
from summarizing_context.messages.text import split_line
from summarizing_context.messages.tokens import Price, choose_counter
from summarizing_context.models import load_models
from summarizing_context.settings import Settings, without_default_cap
from summarizing_context.transcripts import AUTO, Transcript, read_named
from summarizing_context.transcripts.formats import holds_no_message

TIMINGS = ("view_p50_ms", "view_p99_ms", "activation_p99_ms")  # all that two equal runs may differ in
LAW_FIGURES = (
    *("over_budget_views", "tool_unsafe_views", "out_of_order_views", "newest_missing_views", "unseen_tokens"),
    "append_only_breaks",
)
FIGURES = (  # that are counted
    *("messages", "history_tokens", "views", "refused_views", "max_view_tokens", *LAW_FIGURES, "activations"),
    *("model_calls", "model_input_tokens", "model_output_tokens", "stand_ins"),
)

PRICED_MODEL = "claude-sonnet-5"  # by which the demo tells what it saved

_FOLDER = files("summarizing_context.evaluation")

# What is called as messages are played, also in other processes, with their share of their log or file.
PLAYED: ContextVar[Callable[[float], None]] = ContextVar("played", default=lambda share: None)

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(items: Sequence[Item], work: Callable[[Item], Result], jobs: int) -> Iterator[Result]:
    """Yield what `work` gives for each item, in their order, worked on in so many processes; of one, in this one."""
    if (jobs := min(jobs, len(items))) <= 1:
        yield from map(work, items)
        return
    processes, told = get_context("spawn"), 0.0
    played = processes.Value("d")
    with ProcessPoolExecutor(jobs, processes, _begin, (played,)) as pool:
        results = [pool.submit(work, item) for item in items]
        try:
            for result in results:
                is_done = False
                while not is_done:
                    is_done = bool(wait([result], 0.5).done)
                    told, before = played.value, told
                    PLAYED.get()(told - before)
                yield result.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(played: Any) -> None:
    """Begin a process: Ctrl-C ends it at once, without a traceback; what it plays is added up for all."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def add(share: float) -> None:
        with played.get_lock():
            played.value += share

    PLAYED.set(add)


@dataclass(slots=True, kw_only=True)
class Tally:
    """What has been counted of one file at one budget, or of several together."""

    file: str
    budget: int | None  # None for a sum over several, as strategy and token counter
    strategy: str | None = None
    token_counter: str | None = None  # its name
    counts: Counter[str] = field(default_factory=Counter)  # FIGURES, `view_tokens` of all views, and of these
    # `hit_tokens`, with which each view begins as the view before did
    repairs: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)  # records of the file that are no messages, by kind
    skipped_lines: list[str] = field(default_factory=list)  # its lines that cannot be read, as `file:line: why`
    view_ms: list[float] = field(default_factory=list)
    activation_ms: list[float] = field(default_factory=list)  # of the views with an activation

    def figures(self) -> dict[str, Any]:
        """Return the figures under their published names, as JSON values."""

        def percentile(values: Sequence[float], percent: float) -> float:  # the nearest rank, to the thousandth
            return round(sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1], 3) if values else 0.0

        tokens, hit = self.counts["view_tokens"], self.counts["hit_tokens"]
        return {
            **{name: getattr(self, name) for name in ("file", "token_counter", "budget", "strategy", "skipped_lines")},
            **{name: self.counts[name] for name in FIGURES},
            "repairs": dict(sorted(self.repairs.items())),
            "skipped": dict(sorted(self.skipped.items())),
            "mean_view_tokens": round(tokens / self.counts["views"], 1) if self.counts["views"] else 0.0,
            "prefix_hit": round(hit / tokens, 4) if tokens else 0.0,
            "uncached_tokens": tokens - hit,
            "view_p50_ms": percentile(self.view_ms, 50),
            "view_p99_ms": percentile(self.view_ms, 99),
            "activation_p99_ms": percentile(self.activation_ms, 99),
        }

    def broken_laws(self) -> dict[str, int]:
        """Return the figures that should be 0 and are not."""
        return {name: count for name in LAW_FIGURES if (count := self.counts[name])}


def _add_up(rows: Sequence[Tally]) -> Tally:
    """Return one or more of them as one; budget, strategy and counter stay where they share them."""
    total = replace(rows[0], file="total")
    files = list({row.file: row for row in rows}.values())  # each once, at however many budgets
    for name in (each.name for each in fields(total)[1:]):
        values: list[Any] = [getattr(row, name) for row in (files if name.startswith("skipped") else rows)]
        if name in ("budget", "strategy", "token_counter"):
            setattr(total, name, values[0] if len(set(values)) == 1 else None)
        else:
            setattr(total, name, sum(values, start=type(values[0])()))
    total.counts["max_view_tokens"] = max(row.counts["max_view_tokens"] for row in rows)
    return total


async def make_price(settings: Settings) -> Price:
    """Return the price by the counter that a session with these settings has."""
    counter = await choose_counter(settings.token_counter, allow_download=settings.allow_download, silent=True)
    return Price(counter.count, settings.image_tokens)


class Recorder:
    """Adds messages to a context and takes its views, tallying what they are."""

    def __init__(
        self, context: SummarizingContext, price: Price, tally: Tally, bound_thinking: BoundThinking = "kept"
    ) -> None:
        self.tally, self.view, self.view_tokens = tally, list[dict[str, Any]](), 0  # the last view
        self._context, self._price, self._judge, self._bound_thinking = context, price, Judge(), bound_thinking
        self._sizes: dict[bytes, int] = {}  # of messages, each counted once

    async def add(self, message: dict[str, Any]) -> None:
        await self._context.add_message(message)
        self._judge.add(message)
        self.tally.counts["messages"] += 1

    async def take_view(self) -> None:
        """Get a view and judge it; a refused one leaves the last as it is."""
        tally, judge, started = self.tally, self._judge, time.perf_counter()
        try:
            view = (await self._context.next_view(tally.budget, bound_thinking=self._bound_thinking)).messages
        except BudgetError:
            tally.counts["refused_views"] += 1
            return
        tally.view_ms.append((time.perf_counter() - started) * 1_000)
        activated = getattr(self._context.last_view, "activation", None) is not None
        tally.activation_ms += tally.view_ms[-1:] if activated else []
        keys = [canonical(message) for message in view]
        common, broken = judge.look(view, keys)
        new = {key: message for key, message in zip(keys, view, strict=True) if key not in self._sizes}
        self._sizes |= {key: self._price.message(message) for key, message in new.items()}
        tokens = [self._sizes[key] for key in keys]
        size = sum(tokens)
        tally.counts.update(
            views=1,
            view_tokens=size,
            hit_tokens=sum(tokens[:common]),
            append_only_breaks=common < len(self.view) and not activated,
            over_budget_views=tally.budget is not None and size > tally.budget,
            **broken,
        )
        tally.counts["max_view_tokens"] = max(tally.counts["max_view_tokens"], size)
        self.view, self.view_tokens = view, size

    def finish(self) -> Tally:
        """Return the tally, with what only the context itself knows."""
        statistics, tally = self._context.statistics(), self.tally
        tally.token_counter, tally.repairs = statistics.token_counter, Counter(statistics.repairs)
        tally.counts["unseen_tokens"] = self._context.unseen_tokens()
        for name in ("history_tokens", "activations", *FIGURES[-4:]):
            tally.counts[name] = getattr(statistics, name)
        return tally


def replay_files(
    files: Sequence[Path],
    variants: Sequence[Settings],
    *,
    format: str = AUTO,
    dry_run: bool = False,
    jobs: int = 1,
    watch: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Replay files with each of these settings, `jobs` at a time; return as JSON values the figures of each, their sums
    by strategy and budget, the total, and which files cannot be read. Raise `TranscriptError` where none has a message.
    """
    rows, unreadable = list[Tally](), list[TranscriptError]()
    for found in for_each(files, partial(_replay_file, variants=variants, format=format, dry_run=dry_run), jobs):
        rows += found if isinstance(found, list) else []
        unreadable += [found] if isinstance(found, TranscriptError) else []
        watch(f"{sum(row.counts['messages'] for row in rows):,} messages")
    if not rows or not (unreadable or any(row.counts["messages"] for row in rows)):
        raise [*unreadable, holds_no_message(files[0], format)][0]
    kinds = dict.fromkeys((one.strategy, one.budget) for one in rows)
    sums = [_add_up([one for one in rows if (one.strategy, one.budget) == kind]).figures() for kind in kinds]
    told = {"rows": [row.figures() for row in rows], "totals": sums, "total": _add_up(rows).figures()}
    return {**told, "timings": list(TIMINGS), "unreadable": list(map(str, unreadable))}


def _replay_file(
    path: Path, variants: Sequence[Settings], *, format: str, dry_run: bool
) -> list[Tally] | TranscriptError:
    """Return the tallies of a file, or why it cannot be read."""
    try:  # each session in an event loop of its own
        logs = read_named(path, format=format)
        of = len(variants) * sum(len(log.messages) for log in logs.values())
        return [row for name, log in logs.items() for row in anyio.run(replay_log, name, log, variants, dry_run, of)]
    except TranscriptError as error:
        return error


async def replay_log(
    name: str, log: Transcript, variants: Sequence[Settings], dry_run: bool = False, of: int = 1
) -> list[Tally]:
    """Replay one log with each of these settings, `of` so many messages in all. A dry run assumes replies."""
    price, rows = await make_price(variants[0]), []
    for variant in variants:
        # Pauses between messages are those of this machine, not of the session: none of them makes a session idle.
        settings = replace(variant, store=":memory:", session_id="replay", idle_after="never")
        assumed: Any = nullcontext()
        if dry_run:
            settings = without_default_cap(settings)
            assumed = RecordedModel(settings, Cassette(Path(os.devnull), "forecast"))
        async with assumed as summarizer, open_context(settings, summarizer=summarizer) as context:
            skipped: Any = {"skipped": Counter(log.skipped), "skipped_lines": [*log.unreadable]}
            tally = Tally(file=name, budget=variant.max_tokens, strategy=variant.strategy, **skipped)
            recorder = Recorder(context, price, tally)
            for index, message in enumerate(log.messages):
                # No host sends a request between the calls of one reply.
                if message.get("role") == "assistant" and index and not context.open_calls():
                    await recorder.take_view()
                await recorder.add(message)
                await context.wait_idle()
                PLAYED.get()(1 / of)
            rows.append(recorder.finish())
    return rows


# The bundled demo session


async def play_demo(messages: Sequence[Message], settings: Settings, *, watch: Callable[[str], None]) -> dict[str, Any]:
    """Play the demo without waiting for the worker; return the figures as JSON values."""
    price, budget = await make_price(settings), int(settings.max_tokens)
    async with open_context(settings) as context:
        recorder = Recorder(context, price, Tally(file="demo", budget=budget))
        for message in messages:
            if message["role"] == "assistant":
                await recorder.take_view()
            await recorder.add(message)
            await anyio.sleep(0.004)  # what its agent takes for a message, so that the worker has its turn
            ready = context.statistics().summaries_ready
            watch(f"{recorder.view_tokens:>6,} of {budget:,} tokens in view, {ready} summaries")
        await recorder.take_view()
        tally, statistics = recorder.finish(), context.statistics()

        # each question is asked as a person would ask it next
        questions = demo_questions()
        end, asked = await context.checkpoint(), list[Sequence[Message]]()
        for question in questions:
            await context.add_message({"role": "user", "content": question["ask"]})
            asked.append(await context.get_messages_for_request() if recorder.view else [])
            await context.delete_checkpoint(await context.restore(end))
        await context.delete_checkpoint(end)

    # What is sent without this package: the system row and the newest messages that fit; or the whole history.
    sums = list(accumulate(map(price.message, messages), initial=0))
    start = next((at for at in range(1, len(messages)) if sums[1] + sums[-1] - sums[at] <= budget), len(messages))
    histories = [sums[at] for at, message in enumerate(messages) if message["role"] == "assistant"]
    whole, cached = sum(histories) + sums[-1], sum(histories)
    listed = load_models().price_of(PRICED_MODEL)
    reasons = sorted((str(reason), count) for reason, count in statistics.activations_by_reason.items() if count)
    view_tokens, hit_tokens = tally.counts["view_tokens"], tally.counts["hit_tokens"]
    return {
        "session": settings.session_id,
        **tally.figures(),
        "last_view_tokens": recorder.view_tokens,
        "activations_by_reason": dict(reasons),
        "summaries": statistics.summaries_ready,
        "slowest_view_ms": round(max(tally.view_ms, default=0.0), 1),
        "sent_tokens": view_tokens,
        "whole_history_sent_tokens": whole,
        "priced_model": PRICED_MODEL,
        "dollars": None if listed is None else listed.cost(view_tokens, 0, hit_tokens),
        "whole_history_dollars": None if listed is None else listed.cost(whole, 0, cached),
        "questions": find_answers(questions, asked, [messages[0], *messages[start:]]),
    }


def demo_session(turns: int | None = None) -> list[Message]:
    """Return the session's messages in OpenAI chat shape, some 500 in 44 turns; or its first turns."""
    lines = gzip.decompress((_FOLDER / "demo_session.jsonl.gz").read_bytes()).splitlines()
    messages: list[Message] = list(map(json.loads, lines))
    starts = [at for at, message in enumerate(messages) if message["role"] == "user"]
    return messages if turns is None or turns >= len(starts) else messages[: starts[turns]]


def demo_questions() -> list[dict[str, Any]]:
    """Return what is asked about the session, each question with the wordings of its answer."""
    return list(tomllib.loads((_FOLDER / "demo_questions.toml").read_text("utf8"))["question"])


def find_answers(
    questions: Iterable[Mapping[str, Any]], views: Iterable[Sequence[Message]], without: Sequence[Message]
) -> list[dict[str, Any]]:
    """Return each question with whether its view answers it in one sentence, its `words`, and if `without` does."""
    marks = str.maketrans("", "", "`*_")

    def plain(text: str) -> str:  # case and marks of code and emphasis do not matter
        return " ".join(text.translate(marks).casefold().split())

    def said(messages: Iterable[Message]) -> list[tuple[str, str]]:
        texts = (text for message in messages for text in message_text_parts(message))
        return [(one, plain(one)) for text in texts for line in text.split("\n") for one in split_line(line.strip())]

    def answering(sentences: Iterable[tuple[str, str]], wordings: Sequence[Sequence[str]]) -> list[str]:
        return [one for one, bare in sentences if any(all(each in bare for each in wording) for wording in wordings)]

    found, said_without = list[dict[str, Any]](), said(without)
    for asked, view in zip(questions, views, strict=True):
        plainly = [[plain(each) for each in wording] for wording in asked["answers"]]
        here, elsewhere = answering(said(view), plainly), answering(said_without, plainly)
        words = " ".join("".join(here[:1]).split()).removeprefix("- ")
        places = [at for wording in asked["answers"] for one in wording if (at := words.casefold().find(one)) >= 0]
        start = min(places, default=0) - 22
        if len(words) > 90 and start > 0:  # what stands around the answer
            words = f"…{words[start:].partition(' ')[2]}"
        row = {"question": asked["ask"], "found": bool(here), "words": shorten(words, 90, placeholder="…")}
        found.append({**row, "without": bool(elsewhere)})
    return found

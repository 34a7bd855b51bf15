"""Putting a context together: the one place that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from summarizing_context.clocks import choose_clock
from summarizing_context.context import SummarizingContext
from summarizing_context.core.ledger_rules import LedgerRule, RuleBook, check_rules
from summarizing_context.core.pace import Pace
from summarizing_context.core.reading_calls import CallReader, Detectors
from summarizing_context.core.segments import Limits as SegmentLimits
from summarizing_context.core.shrinking import Price
from summarizing_context.endings import running_loop
from summarizing_context.errors import SettingsError
from summarizing_context.extraction import CueRules, RuleReader
from summarizing_context.foreground import Foreground
from summarizing_context.intake import Intake
from summarizing_context.jobs import Recipe
from summarizing_context.learning import Learner
from summarizing_context.ledgers import LedgerBook
from summarizing_context.loading import load_session
from summarizing_context.making import (
    AnyCaller,
    Log,
    make_caller,
    make_embedder,
    make_extracts,
    make_learner,
    make_vectors,
    refuse_vectors_without_embedding,
)
from summarizing_context.meaning import Meaning, check_embedder
from summarizing_context.parts import Parts
from summarizing_context.ports import Clock, Embedder, Events, Summarizer
from summarizing_context.prices import FREE, ModelPrice, load_prices
from summarizing_context.recipes import make_recipe
from summarizing_context.redaction import Redaction
from summarizing_context.settings import Settings
from summarizing_context.shelves import SessionStore
from summarizing_context.showing import policy_of
from summarizing_context.side_thread import SideThread
from summarizing_context.stores.sqlite import SqliteStore
from summarizing_context.summaries import SummaryBook
from summarizing_context.summarizers.gates import ExtractiveCaller, ModelCaller
from summarizing_context.summarizers.quotes import error_line, quotes
from summarizing_context.timeline import Timeline
from summarizing_context.tokens import choose_counter
from summarizing_context.viewer import Viewer
from summarizing_context.worker import Caller, Worker


@asynccontextmanager
async def open_context(
    settings: Settings | None = None,
    *,
    summarizer: Summarizer | None = None,
    count_tokens: Callable[[str], int] | None = None,
    clock: Clock | Callable[[], float] | None = None,
    redact: Callable[[str], str] | None = None,
    read_only: bool = False,
    events: Events | None = None,
    embedder: Embedder | Callable[[list[str]], Any] | None = None,
    ledger_rules: Sequence[LedgerRule] = (),
) -> AsyncIterator[SummarizingContext]:
    """A session, opened for the length of an `async with`.

    `summarizer` is any object with `async def summarize(job) -> str`; without it the settings name one.
    `count_tokens` counts the tokens of a text; `clock` gives seconds that never go back; `redact` takes out what must
    not reach a summarizer or an embedder: it sees the texts of a message, all as one, in a thread. `embedder` turns a
    list of texts into a list of vectors (the extra `vectors`), so that searching finds what is near in meaning.
    `ledger_rules` say what tools of yours do, before the rules for common tools. `read_only` writes and asks nothing.
    Raises `SettingsError`, `SessionInUseError`, `StoreError` or, under trio, `WrongEventLoopError` on entering.
    """
    context = await start_context(
        Settings() if settings is None else settings,
        Options(
            summarizer,
            count_tokens,
            clock,
            redact,
            read_only,
            events,
            embedder=embedder,
            ledger_rules=ledger_rules,
        ),
    )
    try:
        yield context
    finally:
        await context.close()


@dataclass(frozen=True, slots=True)
class Options:
    """What a program passes beside the settings; as the arguments of `open_context`.

    `store` is an open store in place of the file that the settings name; the context closes it.
    """

    summarizer: Summarizer | None = None
    count_tokens: Callable[[str], int] | None = None
    clock: Clock | Callable[[], float] | None = None
    redact: Callable[[str], str] | None = None
    read_only: bool = False
    events: Events | None = None
    store: SessionStore | None = None
    embedder: Embedder | Callable[[list[str]], Any] | None = None
    ledger_rules: Sequence[LedgerRule] = ()
    keep_system: bool = True  # system rows between others stay in every view
    announce: Callable[[dict[str, Any]], Awaitable[None]] | None = None  # awaited before an activation


async def start_context(settings: Settings, options: Options) -> SummarizingContext:
    """An open context that the caller closes."""
    running_loop()
    _check(settings, options)
    clock = choose_clock(options.clock)
    counter = await choose_counter(
        settings.token_counter, count_tokens=options.count_tokens, allow_download=settings.allow_download
    )
    caller = make_caller(settings, options.summarizer, clock, read_only=options.read_only)
    price = _price(settings, caller)
    foreground = Foreground()
    store = options.store or await open_store(
        settings.store, read_only=options.read_only, gives_way=lambda: foreground.is_busy
    )
    try:
        parts = _Assembly(settings, options, clock, store, caller, price, foreground).parts(counter)
        await load_session(parts)
    except BaseException:
        await store.close()
        raise
    return SummarizingContext(parts)


async def open_store(
    path: str | Path, *, read_only: bool = False, gives_way: Callable[[], bool] = lambda: False
) -> SessionStore:
    """A store, opened; the caller closes it. While `gives_way` says so, it indexes nothing in spare time."""
    store = SqliteStore(path, read_only=read_only, gives_way=gives_way)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store


def recipe_of(settings: Settings) -> Recipe:
    """How the summaries of these settings would be made. Needs no key, and calls nobody."""
    caller = make_caller(settings, None, choose_clock(None), read_only=True)
    return make_recipe(settings, caller.recipe, own=isinstance(caller, ExtractiveCaller), redact=None)


@dataclass(frozen=True, slots=True)
class _Assembly:
    settings: Settings
    options: Options
    clock: Clock
    store: SessionStore
    caller: AnyCaller
    price: ModelPrice | None
    foreground: Foreground

    def parts(self, counter: Any) -> Parts:
        settings = self.settings
        limits = SegmentLimits(settings.segment_min, settings.segment_target, settings.segment_max)
        reader = RuleReader(CueRules())
        timeline = Timeline(limits, settings.image_tokens, keep_system=self.options.keep_system, reader=reader)
        own = isinstance(self.caller, ExtractiveCaller)
        redact = None if self.options.redact is None else Redaction(self.options.redact)
        recipe = make_recipe(settings, self.caller.recipe, own=own, redact=redact)
        counted = settings.max_messages or settings.summarize_threshold
        every = None if counted is None else max(1, counted // 2)
        book = SummaryBook(
            timeline, make_extracts(settings), maker=recipe.maker, cap=settings.summary_max_tokens, every=every
        )
        price = Price(counter.count, settings.image_tokens, Pace())
        ledger = self.ledger(timeline)
        viewer = Viewer(timeline, book, policy_of(settings), price, counter.name, ledger=ledger)
        learner = self.learner(timeline, book, recipe, ledger, redact)
        counting, preparing = SideThread("counting"), SideThread("preparing")
        worker = self.worker(timeline, book, recipe, viewer, ledger, preparing=preparing, learner=learner)

        async def apart(work: Callable[[], Any]) -> Any:
            with self.foreground.call():  # else background work beside it leaves the event loop no turn
                return await counting.run(work)

        return Parts(
            settings=settings,
            timeline=timeline,
            book=book,
            ledger=ledger,
            viewer=viewer,
            worker=worker,
            foreground=self.foreground,
            store=self.store,
            intake=Intake(counter, apart, reader),
            apart=apart,
            counter=counter,
            clock=self.clock,
            calls=self.caller.statistics,
            price=self.price,
            closing=self.closing(counting, preparing),
            events=self.options.events,
            read_only=self.options.read_only,
            meaning=self.meaning(redact),
            redact=recipe.redact,
            learner=learner,
            announce=self.options.announce,
        )

    def learner(
        self, timeline: Timeline, book: SummaryBook, recipe: Recipe, ledger: LedgerBook, redact: Redaction | None
    ) -> Learner | None:
        if not self.settings.memory_extract or self.options.read_only:
            return None
        log = Log(timeline, book, ledger, self.store, self.clock)
        return make_learner(self.settings, log, self.caller, recipe, redact=redact, notify=self.notify)

    def ledger(self, timeline: Timeline) -> LedgerBook:
        rules = RuleBook((*check_rules(self.options.ledger_rules), *self.settings.ledger_rules))
        return LedgerBook(timeline, CallReader(rules, Detectors(error_line, quotes)))

    def meaning(self, redact: Redaction | None) -> Meaning | None:
        given = self.options.embedder
        own = make_embedder(self.settings, read_only=self.options.read_only) if given is None else None
        embedder = own if given is None else given
        if embedder is None:
            refuse_vectors_without_embedding(self.settings, read_only=self.options.read_only)
            return None
        vectors = make_vectors(self.settings, self.store.vectors, read_only=self.options.read_only)
        vectors.check_usable()
        return Meaning(embedder, vectors, redact=redact, timeout=self.settings.call_timeout, owned=own is not None)

    def worker(
        self,
        timeline: Timeline,
        book: SummaryBook,
        recipe: Recipe,
        viewer: Viewer,
        ledger: LedgerBook,
        *,
        preparing: SideThread,
        learner: Learner | None,
    ) -> Worker:
        settings = self.settings
        caller: Caller = self.caller

        def past_start() -> bool:
            if no_work:
                return False
            if viewer.covers or book.open.is_asked or (enough is not None and len(timeline) >= enough):
                return True
            return timeline.tokens[-1] > settings.start_at * viewer.high_water(int(settings.max_tokens))

        def notify(name: str, data: dict[str, object]) -> None:
            if learner is not None and name == "summary_ready":
                learner.wake()
            self.notify(name, data)

        no_work = self.options.read_only or settings.strategy == "truncate"
        enough = settings.summarize_threshold
        if enough is None and settings.max_messages is not None:
            enough = int(settings.start_at * settings.max_messages)
        return Worker(
            timeline=timeline,
            book=book,
            store=self.store,
            session_id=settings.session_id,
            caller=caller,
            recipe=recipe,
            clock=self.clock,
            concurrency=settings.concurrency,
            cooldown=settings.breaker_cooldown,
            past_start=past_start,
            foreground=self.foreground,
            preparing=preparing,
            rollups=settings.strategy == "hierarchical",
            notify=notify,
            ledger=ledger if settings.ledger_share else None,
        )

    def notify(self, name: str, data: dict[str, object]) -> None:
        if self.options.events is not None:
            self.options.events.emit(name, data)

    def closing(self, *threads: SideThread) -> list[Any]:
        ends = [self.caller.close] if isinstance(self.caller, ExtractiveCaller | ModelCaller) else []
        return [*ends, *(thread.close for thread in threads), self.store.close]


def _check(settings: Settings, options: Options) -> None:
    if not isinstance(settings, Settings):
        raise SettingsError(f"settings are a Settings value, not {type(settings).__name__}; use Settings.from_mapping")
    if options.summarizer is not None and not callable(getattr(options.summarizer, "summarize", None)):
        raise SettingsError(
            f"summarizer is {type(options.summarizer).__name__}; it needs a method `async def summarize(job) -> str`"
        )
    check_rules(options.ledger_rules)
    if options.embedder is not None:
        check_embedder(options.embedder)
    if options.redact is not None and not callable(options.redact):
        raise SettingsError(f"redact is {type(options.redact).__name__}; it is a function from text to text, or None")


def _price(settings: Settings, caller: AnyCaller) -> ModelPrice | None:
    """What the summaries cost, as far as it is known."""
    table = load_prices(settings.prices)
    return FREE if isinstance(caller, ExtractiveCaller) else table.price_of(caller.model)

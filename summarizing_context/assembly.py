"""Assembly: put a context together. The one module that names concrete classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from summarizing_context.concurrency import Clock, Events, Foreground, Pace, WorkerThread, choose_clock, running_loop
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import SettingsError
from summarizing_context.extraction.rules import CueRules
from summarizing_context.log.intake import Intake
from summarizing_context.log.ledger import CallReader, Detectors, SessionLedger
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.rules import RuleReader
from summarizing_context.log.segments import Limits as SegmentLimits
from summarizing_context.log.tree import Node
from summarizing_context.messages.counters import choose_counter
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.redaction import Redact, Redaction
from summarizing_context.retrieval.embeddings import Embedder, EmbeddingSearch, OpenAIEmbedder, check_embedder
from summarizing_context.retrieval.memory_extraction import (
    MemoryExtractor,
    MemoryReader,
    ModelMemoryReader,
    OfflineMemoryReader,
    UnreadPieces,
)
from summarizing_context.retrieval.offline_memories import offline_memories
from summarizing_context.session import load_session
from summarizing_context.settings.ledger_rules import LedgerRule, LedgerRules, check_rules
from summarizing_context.settings.values import Settings
from summarizing_context.statistics import Parts
from summarizing_context.stores.base import MemoryScope, SessionStore, VectorStore
from summarizing_context.stores.chroma import ChromaVectors
from summarizing_context.stores.sqlite.store import SqliteStore
from summarizing_context.summarizers.anthropic import AnthropicSummarizer
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.extractive.parameters import load_parameters
from summarizing_context.summarizers.extractive.quotes import error_line, quotes
from summarizing_context.summarizers.extractive.summarizer import brief_of, skim, summarize_extractively
from summarizing_context.summarizers.extractive.topics import excerpt_about, key_lines, lines_about
from summarizing_context.summarizers.host import HostSummarizer
from summarizing_context.summarizers.openai import OpenAIChatSummarizer
from summarizing_context.summarizers.prices import FREE, ModelPrice, load_prices
from summarizing_context.summarizers.resilience.caller import (
    ChatModel,
    ExtractiveCaller,
    HostCaller,
    ModelCaller,
    ResilientSummarizer,
)
from summarizing_context.summarizers.resilience.limits import Limits
from summarizing_context.views.builder import Viewer
from summarizing_context.views.provider_view import policy_of
from summarizing_context.views.shrinking import Price
from summarizing_context.worker.jobs import Recipe, make_recipe
from summarizing_context.worker.summary_cache import Extracts, SummaryCache
from summarizing_context.worker.worker import Caller, Worker

AnyCaller = ExtractiveCaller | ResilientSummarizer


class Log(NamedTuple):
    """A session's log, as far as what learns from it needs it."""

    timeline: MessageLog
    book: SummaryCache
    ledger: SessionLedger
    store: SessionStore
    clock: Clock


_MODELS: dict[str, Callable[..., ChatModel]] = {"openai": OpenAIChatSummarizer, "anthropic": AnthropicSummarizer}


def make_caller(settings: Settings, given: Summarizer | None, clock: Clock, *, read_only: bool) -> AnyCaller:
    """How summaries are made: by the object that is given, else by what the settings name."""
    if given is None and settings.summarizer == "extractive":
        return ExtractiveCaller(estimate_text, load_parameters(settings.extractive_parameters))
    limits = Limits(
        call_timeout=settings.call_timeout,
        job_timeout=settings.job_timeout,
        attempts=settings.attempts,
        breaker_failures=settings.breaker_failures,
        breaker_cooldown=settings.breaker_cooldown,
        max_calls_per_hour=settings.max_calls_per_hour,
        max_input_tokens_per_hour=settings.max_input_tokens_per_hour,
        max_calls_per_session=settings.max_calls_per_session,
        max_input_tokens_per_session=settings.max_input_tokens_per_session,
    )
    if isinstance(given, HostSummarizer):
        return HostCaller(given, limits=limits, clock=clock, count=estimate_text)
    if given is not None:
        return ResilientSummarizer(given, limits=limits, clock=clock, count=estimate_text)
    return ModelCaller(make_model(settings, read_only=read_only), limits=limits, clock=clock, count=estimate_text)


def make_model(settings: Settings, *, read_only: bool) -> ChatModel:
    """The model that the settings name; the caller closes it. One that only reads calls nobody and needs no key."""
    if settings.summarizer not in _MODELS:
        raise SettingsError(
            f"summarizer = {settings.summarizer!r} is for a context that is mounted under Amplifier; use 'extractive', "
            "'openai' or 'anthropic', or pass an object of yours as summarizer="
        )
    key = settings.api_key or ("unused" if read_only else None)
    make = _MODELS[settings.summarizer]
    return make(settings.model, base_url=settings.base_url, api_key=key, timeout=settings.call_timeout)


def make_extracts(settings: Settings) -> Extracts:
    """The extractive passes of a session, whoever makes its summaries."""
    parameters = load_parameters(settings.extractive_parameters)

    def thorough(content: str, *, kind: str, max_tokens: int) -> str:
        made: Literal["segment", "rollup"] = "rollup" if kind == "rollup" else "segment"
        return summarize_extractively(
            content, kind=made, max_tokens=max_tokens, count=estimate_text, parameters=parameters
        )

    return Extracts(
        thorough,
        lambda content, most: skim(content, max_tokens=most, count=estimate_text),
        lambda text, most: brief_of(text, max_tokens=most, count=estimate_text),
        lambda text, most: key_lines(text, max_tokens=most, count=estimate_text),
        lambda content, topic, most: lines_about(content, topic, max_tokens=most, count=estimate_text),
        lambda content, topic, most: excerpt_about(content, topic, max_tokens=most, count=estimate_text),
    )


def make_embedder(settings: Settings, *, read_only: bool) -> OpenAIEmbedder | None:
    """The embedder that the settings name."""
    if settings.embedding is None or read_only:  # what only reads sends nothing anywhere
        return None
    address, key = _place_of_embedding(settings)
    shares = settings.summarizer == settings.embedding and address == settings.base_url and not settings.api_key
    timeout = settings.call_timeout
    return OpenAIEmbedder(settings.embedding_model, base_url=address, api_key=key, shares_key=shares, timeout=timeout)


def _place_of_embedding(settings: Settings) -> tuple[str | None, str | None]:
    """Address and key of the embedding: its own, or both of a summarizer of the same provider; never one of each."""
    own = settings.embedding_base_url, settings.embedding_api_key
    given = settings.base_url, settings.api_key
    if any(own) or not any(given):
        return own
    if settings.summarizer == settings.embedding:
        return given
    if settings.summarizer in _MODELS:
        return own
    raise SettingsError(
        f"api_key and base_url belong to the summarizer, and summarizer = {settings.summarizer!r} uses neither; "
        "for the embedding set embedding_api_key or embedding_base_url"
    )


def make_vectors(settings: Settings, in_sqlite: VectorStore, *, read_only: bool) -> VectorStore:
    """Where the settings say that vectors are kept. A Chroma folder stands beside the file, under its name."""
    if settings.vector_store == "sqlite":
        return in_sqlite
    if read_only:
        raise SettingsError(
            "vector_store = 'chroma' cannot be opened for reading only; Chroma writes when it is opened"
        )
    path = str(settings.store)
    return ChromaVectors(in_sqlite, None if path == ":memory:" else Path(f"{path}.chroma"))


def refuse_vectors_without_embedding(settings: Settings, *, read_only: bool) -> None:
    """Raise where a vector store is asked for that would have nothing to keep."""
    if settings.vector_store == "chroma" and not read_only:
        raise SettingsError(
            "vector_store = 'chroma' needs an embedding, for its own is not used; set embedding_model (with "
            "embedding = 'openai'), pass embedder=, or take vector_store = 'sqlite'"
        )


def make_learner(
    settings: Settings,
    log: Log,
    caller: AnyCaller,
    recipe: Recipe,
    *,
    redact: Redact | None,
    notify: Callable[[str, dict[str, object]], None],
) -> MemoryExtractor:
    """What learns memories from a session: the model that makes its summaries, or rules where there is none."""
    book = log.book
    pieces = UnreadPieces(
        log.timeline, lambda leaf: book.is_ready(Node(0, leaf)), lambda: book.open.ready_stop, recipe.redact
    )
    cap = settings.summary_max_tokens
    rules = OfflineMemoryReader(
        log.timeline, lambda found: offline_memories(log.timeline, log.ledger, log.book, cap, found), redact
    )
    reader: MemoryReader = rules
    if recipe.maker == "model":
        reader = ModelMemoryReader(
            pieces, store=log.store, session_id=settings.session_id, caller=caller, recipe=recipe
        )
    scope = MemoryScope(settings.project, settings.session_id)
    return MemoryExtractor(
        pieces,
        (reader, rules),
        log.store.memories,
        scope,
        clock=log.clock,
        cooldown=settings.breaker_cooldown,
        notify=notify,
    )


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
        assembled = _Assembly(settings, options, clock, store, caller, price, foreground)
        parts, meaning = assembled.parts(counter), assembled.meaning()
        await load_session(parts)
    except BaseException:
        await store.close()
        raise
    return SummarizingContext(parts, meaning)


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
        timeline = MessageLog(limits, settings.image_tokens, keep_system=self.options.keep_system, reader=reader)
        own = isinstance(self.caller, ExtractiveCaller)
        redact = None if self.options.redact is None else Redaction(self.options.redact)
        recipe = make_recipe(settings, self.caller.recipe, own=own, redact=redact)
        counted = settings.max_messages or settings.summarize_threshold
        every = None if counted is None else max(1, counted // 2)
        book = SummaryCache(
            timeline, make_extracts(settings), maker=recipe.maker, cap=settings.summary_max_tokens, every=every
        )
        price = Price(counter.count, settings.image_tokens, Pace())
        ledger = self.ledger(timeline)
        viewer = Viewer(timeline, book, policy_of(settings), price, counter.name, ledger=ledger)
        learner = self.learner(timeline, book, recipe, ledger, redact)
        counting, preparing = WorkerThread("counting"), WorkerThread("preparing")
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
            redact=recipe.redact,
            learner=learner,
            announce=self.options.announce,
        )

    def learner(
        self, timeline: MessageLog, book: SummaryCache, recipe: Recipe, ledger: SessionLedger, redact: Redaction | None
    ) -> MemoryExtractor | None:
        if not self.settings.memory_extract or self.options.read_only:
            return None
        log = Log(timeline, book, ledger, self.store, self.clock)
        return make_learner(self.settings, log, self.caller, recipe, redact=redact, notify=self.notify)

    def ledger(self, timeline: MessageLog) -> SessionLedger:
        rules = LedgerRules((*check_rules(self.options.ledger_rules), *self.settings.ledger_rules))
        return SessionLedger(timeline, CallReader(rules, Detectors(error_line, quotes)))

    def meaning(self) -> EmbeddingSearch | None:
        redact = None if self.options.redact is None else Redaction(self.options.redact)
        given = self.options.embedder
        own = make_embedder(self.settings, read_only=self.options.read_only) if given is None else None
        embedder = own if given is None else given
        if embedder is None:
            refuse_vectors_without_embedding(self.settings, read_only=self.options.read_only)
            return None
        vectors = make_vectors(self.settings, self.store.vectors, read_only=self.options.read_only)
        vectors.check_usable()
        return EmbeddingSearch(
            embedder, vectors, redact=redact, timeout=self.settings.call_timeout, owned=own is not None
        )

    def worker(
        self,
        timeline: MessageLog,
        book: SummaryCache,
        recipe: Recipe,
        viewer: Viewer,
        ledger: SessionLedger,
        *,
        preparing: WorkerThread,
        learner: MemoryExtractor | None,
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

    def closing(self, *threads: WorkerThread) -> list[Any]:
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

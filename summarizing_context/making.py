"""Makers of summaries and of vectors: the classes and functions that settings name.

Part of `assembly`, which puts the rest together.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from summarizing_context.core.estimate import estimate_text
from summarizing_context.core.redaction import Redact
from summarizing_context.core.tree import Node
from summarizing_context.embedders.openai_embeddings import OpenAIEmbedder
from summarizing_context.errors import SettingsError
from summarizing_context.jobs import Recipe
from summarizing_context.learning import Learner
from summarizing_context.ledgers import LedgerBook
from summarizing_context.lessons import lessons
from summarizing_context.memory_pieces import MemoryPieces
from summarizing_context.memory_readers import ModelReader, Reader, RuleReader
from summarizing_context.ports import Clock, Summarizer
from summarizing_context.settings import Settings
from summarizing_context.shelves import MemoryScope, SessionStore, VectorKeeper
from summarizing_context.stores.chroma_vectors import ChromaVectors
from summarizing_context.summaries import Extracts, SummaryBook
from summarizing_context.summarizers.anthropic_messages import AnthropicSummarizer
from summarizing_context.summarizers.extractive import brief_of, skim, summarize_extractively
from summarizing_context.summarizers.focusing import excerpt_about, lines_about
from summarizing_context.summarizers.gates import ChatModel, ExtractiveCaller, HostCaller, ModelCaller
from summarizing_context.summarizers.host_provider import HostSummarizer
from summarizing_context.summarizers.key_lines import key_lines
from summarizing_context.summarizers.openai_chat import OpenAIChatSummarizer
from summarizing_context.summarizers.parameter_files import load_parameters
from summarizing_context.summarizers.resilient import Limits, ResilientSummarizer
from summarizing_context.timeline import Timeline

AnyCaller = ExtractiveCaller | ResilientSummarizer


class Log(NamedTuple):
    """A session's log, as far as what learns from it needs it."""

    timeline: Timeline
    book: SummaryBook
    ledger: LedgerBook
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


def make_vectors(settings: Settings, in_sqlite: VectorKeeper, *, read_only: bool) -> VectorKeeper:
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
) -> Learner:
    """What learns memories from a session: the model that makes its summaries, or rules where there is none."""
    book = log.book
    pieces = MemoryPieces(
        log.timeline, lambda leaf: book.is_ready(Node(0, leaf)), lambda: book.open.ready_stop, recipe.redact
    )
    cap = settings.summary_max_tokens
    rules = RuleReader(log.timeline, lambda found: lessons(log.timeline, log.ledger, log.book, cap, found), redact)
    reader: Reader = rules
    if recipe.maker == "model":
        reader = ModelReader(pieces, store=log.store, session_id=settings.session_id, caller=caller, recipe=recipe)
    scope = MemoryScope(settings.project, settings.session_id)
    return Learner(
        pieces,
        (reader, rules),
        log.store.memories,
        scope,
        clock=log.clock,
        cooldown=settings.breaker_cooldown,
        notify=notify,
    )

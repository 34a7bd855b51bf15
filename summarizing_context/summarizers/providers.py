"""The providers of summaries, by the names that settings give them, and the callers that ask them."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

from summarizing_context.concurrency import Clock, WorkerThread
from summarizing_context.errors import SettingsError
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.extractive.parameters import load_parameters
from summarizing_context.summarizers.host import HostSummarizer
from summarizing_context.summarizers.resilience.caller import (
    ChatModel,
    ExtractiveCaller,
    HostCaller,
    ModelCaller,
    ResilientSummarizer,
)
from summarizing_context.summarizers.resilience.limits import Limits

AnyCaller = ExtractiveCaller | ResilientSummarizer


def make_caller(
    settings: Settings,
    given: Summarizer | None,
    clock: Clock,
    *,
    read_only: bool,
    background: WorkerThread | None = None,
) -> AnyCaller:
    """How summaries are made: by the object that is given, else by what the settings name, the extractive ones in the
    thread `background`."""
    if given is None and settings.summarizer == "extractive":
        return ExtractiveCaller(estimate_text, load_parameters(settings.extractive_parameters), background)
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
    if settings.summarizer not in PROVIDERS:
        raise SettingsError(
            f"summarizer = {settings.summarizer!r} is for a context that is mounted under Amplifier; use 'extractive', "
            f"{' or '.join(map(repr, PROVIDERS))}, or pass an object of yours as summarizer="
        )
    key = settings.api_key or ("unused" if read_only else None)
    make: Callable[..., ChatModel] = resolve_name(PROVIDERS[settings.summarizer])
    return make(settings.model, base_url=settings.base_url, api_key=key, timeout=settings.call_timeout)

"""The providers of summaries, by the names that settings give them, and how they are called."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name

from summarizing_context.concurrency import Clock, WorkerThread, choose_clock
from summarizing_context.errors import SettingsError
from summarizing_context.settings import PROVIDERS, Settings
from summarizing_context.summarizers.base import Summarizer
from summarizing_context.summarizers.extractive import ExtractiveSummarizer
from summarizing_context.summarizers.resilience import ResilientSummarizer
from summarizing_context.summarizers.sdk import SdkSummarizer


def make_caller(
    settings: Settings,
    given: Summarizer | None,
    clock: Clock | None = None,
    *,
    read_only: bool,
    background: WorkerThread | None = None,
) -> ExtractiveSummarizer | ResilientSummarizer:
    """Return how summaries are made: by the object that is given, else by what the settings name.

    The extractive ones are made in the thread `background`.
    """
    if given is None and settings.summarizer == "extractive":
        return ExtractiveSummarizer(thread=background)
    clock = clock or choose_clock(None)
    if given is not None:
        return ResilientSummarizer(given, settings=settings, clock=clock)
    model = make_model(settings, read_only=read_only)
    return ResilientSummarizer(model, settings=settings, clock=clock, close=model.close)


def make_model(settings: Settings, *, read_only: bool) -> SdkSummarizer:
    """Return the model that the settings name; the caller closes it. One that only reads makes no call and needs no
    key."""
    if settings.summarizer not in PROVIDERS:
        raise SettingsError(
            f"summarizer = {settings.summarizer!r} is for a context that is mounted under Amplifier; use 'extractive', "
            f"{' or '.join(map(repr, PROVIDERS))}, or pass an object of yours as summarizer="
        )
    key = settings.api_key or ("unused" if read_only else None)
    make: Callable[..., SdkSummarizer] = resolve_name(PROVIDERS[settings.summarizer])
    return make(settings.model, base_url=settings.base_url, api_key=key, timeout=settings.call_timeout)

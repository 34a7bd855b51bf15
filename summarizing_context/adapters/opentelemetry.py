"""Events of sessions as OpenTelemetry's spans and metrics, by the conventions for generative AI.

Only the API is used: without an SDK set up by the program, nothing is recorded. Message text is in no event.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import Any

from summarizing_context.errors import MissingExtraError

try:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, MeterProvider, get_meter
    from opentelemetry.trace import SpanKind, Status, StatusCode, TracerProvider, get_tracer
except ImportError as error:
    raise MissingExtraError("opentelemetry", "OpenTelemetryEvents needs opentelemetry-api") from error

_OURS = "summarizing_context"


class OpenTelemetryEvents:
    """What `open_context(events=...)` takes. One may serve many sessions, where `session_id` is left out.

    Args:
        session_id: `gen_ai.conversation.id` of all spans. It is on no metric.
        traced: Providers whose SDK records its calls itself. Their summaries get no second `chat` span.
        tracer_provider, meter_provider: In the place of the global ones.
    """

    def __init__(
        self,
        session_id: str | None = None,
        *,
        traced: Collection[str] = ("anthropic",),
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        release = version("summarizing-context")
        self._tracer = get_tracer(_OURS, release, tracer_provider)
        self._traced = frozenset(traced)
        self._base = {} if session_id is None else {"gen_ai.conversation.id": session_id}
        # attributes of metrics have few values: a session's name is none of them
        meter = get_meter(_OURS, release, meter_provider)

        def histogram(name: str, unit: str, about: str) -> Histogram:
            bounds = [0.01 * 2**power if unit == "s" else float(4**power) for power in range(14)]  # as advised
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=bounds)

        counter = meter.create_counter
        self._activations = counter(f"{_OURS}.activations", "{activation}", "Views that begin differently.")
        self._waited = histogram(f"{_OURS}.activation.duration", "s", "What a request waits for one.")
        self._view = histogram(f"{_OURS}.view.tokens", "{token}", "A view after an activation.")
        self._freed = counter(f"{_OURS}.freed.tokens", "{token}", "By which activations make views smaller.")
        self._stand_ins = counter(f"{_OURS}.stand_ins", "{stand_in}", "In views, for missing summaries.")
        self._summaries = counter(f"{_OURS}.summaries", "{summary}", "Made, or given up for now.")
        self._duration = histogram("gen_ai.client.operation.duration", "s", "Of a call to a model.")
        self._usage = histogram("gen_ai.client.token.usage", "{token}", "Of a call, by input and output.")

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        """Record an activation, or a summary that is ready or was given up; other events are no telemetry."""
        if name not in ("activation", "summary_ready", "summary_failed"):
            return
        now = time.time_ns()
        began = now - int(data["duration"] * 1e9)
        if name == "activation":
            reason = {f"{_OURS}.reason": data["reason"]}
            self._activations.add(1, reason)
            self._waited.record(data["duration"], reason)
            self._view.record(data["tokens_after"])
            self._freed.add(max(0, data["freed"]))
            self._stand_ins.add(data["stand_ins"])
            figures = ("messages", "stand_ins", "tokens.before", "tokens.after", "header.tokens")
            told = {f"{_OURS}.{name}": data[name.replace(".", "_")] for name in figures}
            attributes = {**self._base, **reason, **told, "gen_ai.conversation.compacted": True}
            # under the span of the request, which has waited for it
            self._tracer.start_span(f"{_OURS}.activate", attributes=attributes, start_time=began).end(now)
            return

        # What the conventions ask for of each call to a model; attributes that are unknown are left out.
        given = {"operation.name": "chat", "provider.name": data["provider"], "request.model": data["model"]}
        operation = {f"gen_ai.{key}": value for key, value in given.items() if value is not None}
        failure = {"error.type": data["error"]} if "error" in data else {}
        self._summaries.add(1, {f"{_OURS}.made_by": data["made_by"], **failure})
        if data["made_by"] == "model":
            self._duration.record(data["duration"], operation | failure)
            for kind in ("input", "output"):
                if (tokens := data.get(f"{kind}_tokens")) is not None:
                    self._usage.record(tokens, {**operation, "gen_ai.token.type": kind})
        attributes = {**self._base, f"{_OURS}.rank": data["rank"], f"{_OURS}.made_by": data["made_by"]}
        name, kind_of_span = f"{_OURS}.summarize", SpanKind.INTERNAL
        if data["made_by"] == "model" and data["provider"] not in self._traced:
            name = "chat" if data["model"] is None else f"chat {data['model']}"
            kind_of_span = SpanKind.CLIENT
            names = ("input_tokens", "output_tokens", "cached_tokens")
            usage = {name.replace("cached_", "cache_read.input_"): data.get(name) for name in names}
            attributes |= operation | {f"gen_ai.usage.{key}": each for key, each in usage.items() if each is not None}
        # in a trace of its own, for no request waits for a summary
        span = self._tracer.start_span(name, Context(), kind_of_span, attributes | failure, start_time=began)
        if failure:
            span.set_status(Status(StatusCode.ERROR))
        span.end(now)

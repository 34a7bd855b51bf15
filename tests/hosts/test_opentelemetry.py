"""Sessions recorded by OpenTelemetry's SDK: which spans and metrics there are, and that no text is in them."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import AsyncMock

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from summarizing_context import Settings, SummarizerError, SummaryReply, open_context
from summarizing_context.adapters.opentelemetry import OpenTelemetryEvents
from tests.behaviour.contexts import fill, said

SECRET = "zanzibar"


class Recorded(NamedTuple):
    spans: list[ReadableSpan]
    points: Mapping[str, list[Any]]  # of each metric

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


class Telemetry:
    """The SDK in memory, and events that go there."""

    def __init__(self, session_id: str | None = "s1", **options: Any) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, meters = TracerProvider(), MeterProvider(metric_readers=[self._reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.events = OpenTelemetryEvents(session_id, tracer_provider=self.tracers, meter_provider=meters, **options)

    def recorded(self) -> Recorded:
        found = self._reader.get_metrics_data()
        metrics = [] if found is None else found.resource_metrics[0].scope_metrics[0].metrics
        points = {metric.name: list(metric.data.data_points) for metric in metrics}
        return Recorded(list(self._exporter.get_finished_spans()), points)


async def recorded_session(**answer: Any) -> Recorded:
    """A session of which each message holds the secret; one of its requests activates, under a span of its caller's."""
    telemetry = Telemetry()
    summarizer: Any = SimpleNamespace(recipe="test/1", model="small-1", summarize=AsyncMock(**answer))
    settings = Settings(max_tokens=4_000, session_id="s1", attempts=1)
    async with open_context(settings, summarizer=summarizer, events=telemetry.events) as context:
        await fill(context, [said(step, f"{SECRET}. " + "I read it. " * 40) for step in range(40)])
        await context.wait_idle()
        with telemetry.tracers.get_tracer("caller").start_as_current_span("request"):
            await context.get_messages_for_request()
    return telemetry.recorded()


async def test_a_summary_of_a_model_is_a_chat_and_an_activation_stands_under_the_request_that_waits_for_it():
    reply = SummaryReply(f"- The word is {SECRET}.", 1_200, 30, cached_tokens=100)
    recorded = await recorded_session(return_value=reply)
    chats, points = recorded.named("chat small-1"), recorded.points
    assert chats
    for span in chats:
        assert (span.kind, span.parent) == (SpanKind.CLIENT, None)
        assert dict(span.attributes or {}) == {
            "gen_ai.conversation.id": "s1",
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "small-1",
            "gen_ai.usage.input_tokens": 1_200,
            "gen_ai.usage.output_tokens": 30,
            "gen_ai.usage.cache_read.input_tokens": 100,
            "summarizing_context.rank": span.attributes["summarizing_context.rank"],
            "summarizing_context.made_by": "model",
        }
    usage = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert usage == {"input": 1_200 * len(chats), "output": 30 * len(chats)}
    [duration] = points["gen_ai.client.operation.duration"]
    assert (duration.count, "error.type" in duration.attributes) == (len(chats), False)

    [request], [span] = recorded.named("request"), recorded.named("summarizing_context.activate")
    assert span.parent.span_id == request.context.span_id
    assert span.attributes["gen_ai.conversation.compacted"] is True
    after = span.attributes["summarizing_context.tokens.after"]
    assert span.attributes["summarizing_context.tokens.before"] > 4_000 >= after
    [activations], [view] = points["summarizing_context.activations"], points["summarizing_context.view.tokens"]
    reason = {"summarizing_context.reason": span.attributes["summarizing_context.reason"]}
    assert (activations.value, activations.attributes, view.sum) == (1, reason, after)


async def test_a_summary_that_is_given_up_tells_its_error():
    recorded = await recorded_session(side_effect=SummarizerError(f"no word of {SECRET}"))
    for span in recorded.named("chat small-1"):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "SummarizerError"
    errors = [point.attributes.get("error.type") for point in recorded.points["gen_ai.client.operation.duration"]]
    assert errors == ["SummarizerError"]


@pytest.mark.parametrize(("provider", "name"), [("openai", "chat m"), ("anthropic", "summarizing_context.summarize")])
def test_a_provider_whose_sdk_records_its_calls_gets_no_second_chat(provider, name):
    telemetry = Telemetry()
    told = {"range_hash": "ab", "rank": 0, "duration": 2.5, "made_by": "model", "provider": provider, "model": "m"}
    usage = {"input_tokens": 10, "output_tokens": 2, "cached_tokens": None}
    telemetry.events.emit("summary_ready", {**told, **usage})
    spans, points = telemetry.recorded()
    assert [(span.name, span.end_time - span.start_time) for span in spans] == [(name, 2_500_000_000)]
    assert points["gen_ai.client.token.usage"][0].attributes["gen_ai.provider.name"] == provider

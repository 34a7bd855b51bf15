"""What the tests of a context share: small settings, logs, contexts that have one, who looks on, parts of views."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from summarizing_context import Settings, SummarizingContext, message_text_parts, open_context
from summarizing_context.testing import range_name
from tests.laws.builders import Message, assistant, count, user
from tests.laws.judge import SMALL
from tests.laws.summarizers import Counting

TINY = {"segment_min": 100, "segment_target": 200, "segment_max": 400, "summary_max_tokens": 22}
OPTIONS = {"clock", "count_tokens", "embedder", "events", "read_only", "redact", "summarizer"}  # beside the settings


def small(**changed: Any) -> Settings:
    """Segments of about 400 tokens, and views of 2,000."""
    return Settings(**{"max_tokens": 2_000, **SMALL, **changed})


def tiny(**changed: Any) -> Settings:
    """Segments of about 200 tokens, and views of 2,000, as the built-in estimate counts them."""
    return Settings(**{"max_tokens": 2_000, "token_counter": "estimate", **TINY, **changed})


def said(at: int, text: str) -> Message:
    """The message with this number of a chat of two."""
    return (assistant if at % 2 else user)(f"{at}: {text}")


async def fill(context: SummarizingContext, messages: Iterable[Message], every: int = 0) -> None:
    """Add the messages; with `every`, a view is asked for after the first and after each so many more, without it
    they are added at once, which takes one commit."""
    rows = list(messages)
    if not every:
        await asyncio.gather(*map(context.add_message, rows))
        return
    for at, message in enumerate(rows):
        await context.add_message(message)
        if every and at % every == 0:
            await context.get_messages_for_request()


async def views(context: SummarizingContext, messages: Iterable[Message]) -> AsyncIterator[list[Message]]:
    """Add the messages, and yield the view after each."""
    for message in messages:
        await context.add_message(message)
        yield await context.get_messages_for_request()


@asynccontextmanager
async def begun(log: Iterable[Message] = (), *, every: int = 0, of: Any = small, **given: Any) -> AsyncIterator[Any]:
    """A context that was filled with this log; `given` are settings, and what `open_context` takes beside them."""
    options = {name: given.pop(name) for name in OPTIONS & given.keys()}
    estimated = {"token_counter": "estimate"} if of is Settings else {}  # without the time that tiktoken takes to load
    settings = of(**{**estimated, **given})
    async with open_context(settings, **{"count_tokens": count, **options}) as context:
        await fill(context, log, every)
        yield context


@asynccontextmanager
async def opened(log: list[Message], **given: Any) -> AsyncIterator[Any]:
    """A context with this log, its summaries made and one view taken."""
    async with begun(**given) as context:
        await context.set_messages(log)
        await context.wait_idle()
        await context.get_messages_for_request()
        yield context


def reason(context: SummarizingContext) -> str | None:
    """Why the last view began differently, if it did."""
    activation = context.last_view.activation
    return None if activation is None else activation.reason


def block(view: list[Message], tag: str) -> str:
    """The first text of a view that begins with this tag, empty for none."""
    texts = (text for message in view for text in message_text_parts(message))
    return next((text for text in texts if text.startswith(f"<{tag}")), "")


def cost(messages: list[Message]) -> int:
    """Tokens of messages, as the tests count."""
    return sum(4 + sum(map(count, message_text_parts(message))) for message in messages)


class Provider:
    """A provider as a host hands it over, with what it tells of its model."""

    def __init__(self, name: str = "house", model: str = "m", **info: Any) -> None:
        self.name, self.info = name, {"id": model, **info}

    def get_model_info(self) -> dict[str, Any]:
        return self.info


class Clock:
    """Seconds that pass only where a test says so."""

    def __init__(self, time: float = 0.0) -> None:
        self.time = time

    def now(self) -> float:
        return self.time


class Heard:
    """An observer that keeps what it hears; with `fails`, it raises each time."""

    def __init__(self, fails: bool = False) -> None:
        self.fails, self.told = fails, list[tuple[str, dict[str, Any]]]()

    def emit(self, name: str, data: Mapping[str, Any]) -> None:
        self.told.append((name, dict(data)))
        if self.fails:
            raise RuntimeError("a bad observer")

    def of(self, name: str) -> list[dict[str, Any]]:
        """What was told under a name."""
        return [data for other, data in self.told if other == name]


class Held(Counting):
    """A summarizer that answers when it may."""

    def __init__(self, recipe: str | None = None) -> None:
        super().__init__(recipe)
        self.may_answer = asyncio.Event()

    async def answer(self, job: Any) -> str:
        await self.may_answer.wait()
        return await super().answer(job)


class Wordy(Counting):
    """Writes so many characters for each token that it may have."""

    def __init__(self, recipe: str, characters: float) -> None:
        super().__init__(recipe)
        self.characters = characters

    async def answer(self, job: Any) -> str:
        self.jobs.append(job)
        wanted = int(self.characters * job.max_tokens)
        return f"- part {range_name(job.range_hash)}{' again and again' * wanted}"[:wanted]

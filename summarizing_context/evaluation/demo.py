"""The bundled demo session, and a run of it: what the last view still answers, and what it cost."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from itertools import accumulate
from textwrap import shorten
from typing import Any

import anyio

from summarizing_context.assembly import open_context
from summarizing_context.evaluation.laws import canonical
from summarizing_context.evaluation.replay import Recorder, Tally, make_costs
from summarizing_context.messages.reading import Message, message_text_parts
from summarizing_context.messages.text import split_line
from summarizing_context.models import load_models
from summarizing_context.settings import Settings

PRICED_MODEL = "claude-sonnet-5"
_PACE = 0.004  # seconds that the agent takes for a message, so that the worker has its turn
_FOLDER = files("summarizing_context.evaluation")


async def play_demo(
    messages: Sequence[Message], settings: Settings, *, watch: Callable[[str], None]
) -> tuple[Tally, dict[str, Any]]:
    """Add the messages one by one, take a view before each answer without waiting for the worker, and look into the
    last view. Return what was counted, and the figures as JSON values. `watch` is called after each message."""
    costs, budget = await make_costs(settings), int(settings.max_tokens)
    async with open_context(settings) as context:
        recorder = Recorder(context, costs, Tally(file="demo", budget=budget))
        for message in messages:
            if message["role"] == "assistant":
                await recorder.take_view()
            await recorder.add(message)
            await anyio.sleep(_PACE)
            ready = context.statistics().summaries_ready
            watch(f"{recorder.view_tokens:>6,} of {budget:,} tokens in view, {ready} summaries")
        await recorder.take_view()
        tally, statistics = recorder.finish(), context.statistics()

    # What is sent without this package: the system row and the newest messages that fit; or the whole history.
    sums = list(accumulate((costs.of(message, canonical(message)) for message in messages), initial=0))
    start = next((at for at in range(1, len(messages)) if sums[1] + sums[-1] - sums[at] <= budget), len(messages))
    histories = [sums[at] for at, message in enumerate(messages) if message["role"] == "assistant"]
    whole, cached = sum(histories) + sums[-1], sum(histories)
    price = load_models().price_of(PRICED_MODEL)
    reasons = sorted((str(reason), count) for reason, count in statistics.activations_by_reason.items() if count)
    return (
        tally,
        {
            "session": settings.session_id,
            **tally.figures(),
            "last_view_tokens": recorder.view_tokens,
            "activations_by_reason": dict(reasons),
            "summaries": statistics.summaries_ready,
            "slow_views": sum(ms >= 250 for ms in tally.view_ms),  # that took as long as a quick answer of a model
            "sent_tokens": tally.view_tokens,
            "whole_history_sent_tokens": whole,
            "priced_model": PRICED_MODEL,
            "dollars": None if price is None else price.cost(tally.view_tokens, 0, tally.hit_tokens),
            "whole_history_dollars": None if price is None else price.cost(whole, 0, cached),
            "questions": find_answers(recorder.view, [messages[0], *messages[start:]]),
        },
    )


def demo_session(turns: int | None = None) -> list[Message]:
    """Return the session's messages in OpenAI chat shape, some 500 in 44 turns; or its first turns."""
    lines = gzip.decompress((_FOLDER / "demo_session.jsonl.gz").read_bytes()).splitlines()
    messages: list[Message] = list(map(json.loads, lines))
    starts = [at for at, message in enumerate(messages) if message["role"] == "user"]
    return messages if turns is None or turns >= len(starts) else messages[: starts[turns]]


def find_answers(view: Sequence[Message], without: Sequence[Message]) -> list[dict[str, Any]]:
    """Return each question with whether the view answers it in one sentence, its `words`, and if `without` does."""

    def sentences(messages: Iterable[Message]) -> list[str]:
        texts = (text for message in messages for text in message_text_parts(message))
        return [one for text in texts for line in text.split("\n") for one in split_line(line.strip())]

    def plain(text: str) -> str:  # case and marks of code and emphasis do not matter
        return " ".join(text.translate(str.maketrans("", "", "`*_")).casefold().split())

    def answers(wordings: list[list[str]], sentence: str) -> bool:
        said = plain(sentence)
        return any(all(plain(fragment) in said for fragment in wording) for wording in wordings)

    told, others, found = sentences(view), sentences(without), list[dict[str, Any]]()
    for asked in tomllib.loads((_FOLDER / "demo_questions.toml").read_text("utf8"))["question"]:
        wordings = asked["answers"]
        sentence = next((one for one in told if answers(wordings, one)), "")
        words = " ".join(sentence.split()).removeprefix("- ")
        places = [at for wording in wordings for one in wording if (at := words.casefold().find(one)) >= 0]
        start = min(places, default=0) - 22
        if len(words) > 90 and start > 0:  # what stands around the answer
            words = f"…{words[start:].partition(' ')[2]}"
        row = {"question": asked["ask"], "found": bool(sentence), "words": shorten(words, 90, placeholder="…")}
        found.append({**row, "without": any(answers(wordings, one) for one in others)})
    return found

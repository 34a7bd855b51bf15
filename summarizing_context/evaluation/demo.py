"""The bundled demo session, and a run of it: what the last view still answers, and what it cost.

Beside each answer stands what the newest messages alone would answer in the same budget. `cli.replay` shows the result.
"""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, NamedTuple

import anyio

from summarizing_context.assembly import open_context
from summarizing_context.evaluation.laws import canonical
from summarizing_context.evaluation.replay import Costs, Recorder, Tally, free_session_id, make_costs
from summarizing_context.evaluation.view_parts import PARTS, Part, part_texts
from summarizing_context.messages.reading import message_text_parts
from summarizing_context.messages.text import split_line
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prices import load_prices

SLOW_VIEW_MS = 250.0  # less than any model needs for an answer
PRICED_MODEL = "claude-sonnet-5"
_PACE = 0.004  # seconds that the agent takes for a message, so that the worker has its turn
_SHOWN = 90  # characters of an answer
_MARKS = str.maketrans("", "", "`*_")


class DemoQuestion(NamedTuple):
    """Something that the session has said."""

    question: str
    answers: tuple[tuple[str, ...], ...]  # wordings, each of fragments that stand in one sentence
    stated_at: int  # index of the message that says it first


class Moment(NamedTuple):
    """Where the demo stands."""

    messages: int
    view_tokens: int
    summaries_ready: int
    activations: int


class Finding(NamedTuple):
    """A question, and the sentence of the view that answers it."""

    question: str
    part: Part | None  # of the view; None: nothing answers
    words: str
    without: bool  # whether the newest messages alone, in the same budget, answer it too

    @property
    def found(self) -> bool:
        """Whether the view answers the question."""
        return self.part is not None


class Sent(NamedTuple):
    """What all requests together send."""

    tokens: int
    cached: int  # of these, what each request begins with as the one before did

    @property
    def dollars(self) -> float | None:
        """The price of this input at `PRICED_MODEL`, with the provider's prompt cache."""
        price = load_prices().price_of(PRICED_MODEL)
        return None if price is None else price.cost(self.tokens, 0, self.cached)


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo has shown."""

    session_id: str
    tally: Tally
    activations_by_reason: dict[str, int]
    summaries: int
    waited_views: int  # that took as long as a model would
    slowest_ms: float
    last_view_tokens: int
    token_counter: str
    findings: tuple[Finding, ...]
    whole: Sent  # were the whole history sent each time

    @property
    def sent(self) -> Sent:
        """What the views sent."""
        return Sent(self.tally.view_tokens, self.tally.hit_tokens)

    def document(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "session": self.session_id,
            **self.tally.figures(),
            "activations_by_reason": self.activations_by_reason,
            "summaries": self.summaries,
            "waited_for_model": self.waited_views,
            "token_counter": self.token_counter,
            "sent_tokens": self.sent.tokens,
            "whole_history_sent_tokens": self.whole.tokens,
            "priced_model": PRICED_MODEL,
            "dollars": self.sent.dollars,
            "whole_history_dollars": self.whole.dollars,
            "questions": [
                {"question": f.question, "found": f.found, "where": f.part, "words": f.words, "without": f.without}
                for f in self.findings
            ],
        }


async def play_demo(
    messages: Sequence[dict[str, Any]],
    settings: Settings,
    budget: int,
    *,
    watch: Callable[[Moment], None] | None = None,
) -> DemoReport:
    """Add the messages one by one, take a view before each answer, and look into the last view.

    The worker runs beside it and is never waited for.
    """
    settings = replace(settings, session_id=await free_session_id(settings, "demo"))
    async with open_context(settings) as context:
        costs = await make_costs(settings)
        recorder = Recorder(context, costs, Tally(file="demo", budget=budget))
        for message in messages:
            if message["role"] == "assistant":
                await recorder.take_view()
            await recorder.add(message)
            await anyio.sleep(_PACE)
            if watch is not None:
                now = context.statistics()
                watch(Moment(now.messages, recorder.view_tokens, now.summaries_ready, now.activations))
        await recorder.take_view()
        tally, statistics = recorder.finish(), context.statistics()
        return DemoReport(
            settings.session_id,
            tally,
            dict(sorted((str(reason), count) for reason, count in statistics.activations_by_reason.items() if count)),
            statistics.summaries_ready,
            sum(elapsed >= SLOW_VIEW_MS for elapsed in tally.view_ms),
            max(tally.view_ms, default=0.0),
            recorder.view_tokens,
            statistics.token_counter,
            tuple(find_answers(demo_questions(messages), recorder.view, messages, newest(messages, budget, costs))),
            _whole_history(messages, costs),
        )


def demo_questions(messages: Sequence[dict[str, Any]]) -> list[DemoQuestion]:
    """Questions about a demo session, with the wordings of their answers and where these are first said."""
    return [
        DemoQuestion(
            asked["ask"],
            tuple(tuple(wording) for wording in asked["answers"]),
            next(at for at, message in enumerate(messages) if asked["said"] in str(message["content"])),
        )
        for asked in asked_questions()
    ]


def newest(messages: Sequence[dict[str, Any]], budget: int, costs: Costs) -> list[dict[str, Any]]:
    """The system row and the newest messages that fit the budget: what is sent without this package."""
    kept = [messages[0]]
    room = budget - costs.of(messages[0], canonical(messages[0]))
    for message in reversed(messages[1:]):
        room -= costs.of(message, canonical(message))
        if room < 0:
            break
        kept.insert(1, message)
    return kept


def find_answers(
    questions: Sequence[DemoQuestion],
    view: Sequence[dict[str, Any]],
    log: Sequence[dict[str, Any]],
    without: Sequence[dict[str, Any]] = (),
) -> list[Finding]:
    """For each question the first sentence of the view that answers it, and whether `without` answers it too."""
    texts = part_texts(view, log)
    sentences = [(part, one) for part in PARTS for one in _sentences(texts.get(part, ""))]
    other = [one for message in without for text in message_text_parts(message) for one in _sentences(text)]
    findings = []
    for question in questions:
        found = next(((part, one) for part, one in sentences if is_answer(question, one)), None)
        part, words = found or (None, "")
        findings.append(
            Finding(question.question, part, _excerpt(words, question), any(is_answer(question, one) for one in other))
        )
    return findings


def is_answer(question: DemoQuestion, sentence: str) -> bool:
    """Whether a sentence says the answer, in one of its wordings."""
    said = _plain(sentence)
    return any(all(_plain(fragment) in said for fragment in wording) for wording in question.answers)


def _sentences(text: str) -> list[str]:
    return [one for line in text.split("\n") for one in split_line(line.strip())]


def _plain(text: str) -> str:
    return " ".join(text.translate(_MARKS).casefold().split())


def _excerpt(sentence: str, question: DemoQuestion) -> str:
    """The sentence, or of a long one what stands around the answer."""
    text = " ".join(sentence.split()).removeprefix("- ")
    if len(text) <= _SHOWN:
        return text
    places = [at for wording in question.answers for one in wording if (at := text.casefold().find(one)) >= 0]
    start = max(min(places, default=0) - _SHOWN // 4, 0)
    start = text.find(" ", start - 1) + 1 if start else 0
    end = text[start : start + _SHOWN]
    return ("…" if start else "") + (end if start + _SHOWN >= len(text) else end.rpartition(" ")[0] + "…")


def _whole_history(messages: Sequence[dict[str, Any]], costs: Costs) -> Sent:
    """What is sent if each request holds all messages before it: one before each answer, and the last one."""
    tokens = cached = history = before = 0
    for message in (*messages, {"role": "assistant"}):
        if message["role"] == "assistant":
            tokens, cached, before = tokens + history, cached + before, history
        if "content" in message:
            history += costs.of(message, canonical(message))
    return Sent(tokens, cached)


_FOLDER = files("summarizing_context.evaluation")
_ASKED_ABOUT = (0, 1, 2, 4, 7, 24)  # turns that say what the questions ask


def demo_session(turns: int | None = None) -> list[dict[str, Any]]:
    """The session's messages in OpenAI chat shape: 44 turns, some 500 messages and 170k tokens.

    A shorter session keeps the turns that the questions ask about, and the earliest of the others.
    """
    lines = gzip.decompress((_FOLDER / "demo_session.jsonl.gz").read_bytes()).splitlines()
    messages: list[dict[str, Any]] = [json.loads(line) for line in lines]
    starts = [at for at, message in enumerate(messages) if message["role"] == "user"]
    others = [number for number in range(len(starts)) if number not in _ASKED_ABOUT]
    wanted = len(starts) if turns is None else turns
    kept = sorted([*_ASKED_ABOUT, *others[: max(0, wanted - len(_ASKED_ABOUT))]])
    ends = [*starts[1:], len(messages)]
    return [*messages[: starts[0]], *(one for number in kept for one in messages[starts[number] : ends[number]])]


def asked_questions() -> list[dict[str, Any]]:
    """The questions, as `demo_questions.toml` has them."""
    questions: list[dict[str, Any]] = tomllib.loads((_FOLDER / "demo_questions.toml").read_text("utf8"))["question"]
    return questions

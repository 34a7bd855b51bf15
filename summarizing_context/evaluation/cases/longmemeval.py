"""LongMemEval's files as cases: each question with its haystack of chats is one session, cut at its end.

Nothing of LongMemEval comes with this package: name your own copy. Answers that do not stand word for word in the
chats that hold their evidence need a model to be judged and are left out here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.cases.model import KEPT_SHARE, Case, Cut, Message, Probe
from summarizing_context.evaluation.cases.reading import kept_from, read_session, tokens_before
from summarizing_context.evaluation.scoring.texts import Text


def longmemeval_numbers(path: Path) -> list[int]:
    """The numbers of the questions in a file whose answers can be looked for without a model."""
    return [number for number, told in enumerate(_load(path)) if _is_asked(told)]


def longmemeval_case(path: Path, number: int, *, budget: int) -> Case:
    """The session of one question; without a probe where its answer stands in the newest part."""
    told = _load(path)[number]
    try:
        messages, evidence = _as_messages(told)
        id, answer = str(told["question_id"]), str(told["answer"])
        cut = Cut(at=len(messages), budget=budget)
        probes = tuple(_probes(told, answer, messages, evidence, cut))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise TranscriptError(f"{path}:1: no LongMemEval question ({type(error).__name__}: {error})") from error
    return Case(
        id=f"longmemeval-{id}",
        messages=tuple(messages),
        cuts=(cut,),
        probes=probes,
        title=f"LongMemEval {id}",
        domain=str(told.get("question_type", "")),
        source="longmemeval",
        licence="MIT",
    )


@lru_cache(maxsize=1)
def _load(path: Path) -> list[Any]:
    try:
        found = json.loads(path.read_text(encoding="utf8"))
    except OSError as error:
        raise TranscriptError(f"{path}:1: cannot be read ({error.strerror}); check the path") from error
    except ValueError as error:
        raise TranscriptError(f"{path}:1: not JSON ({error}); name a file of LongMemEval") from error
    if not isinstance(found, list):
        raise TranscriptError(f"{path}:1: a LongMemEval file is a list of questions; name another file")
    return found


def _is_asked(told: object) -> bool:
    """Whether a question has an answer to look for: those about what was never said have none."""
    return isinstance(told, dict) and not str(told.get("question_id", "")).endswith("_abs")


def _as_messages(told: Mapping[str, Any]) -> tuple[list[Message], list[int]]:
    """The chats one after the other, each begun with its date; and the messages that hold the answer."""
    messages: list[Message] = []
    evidence: list[int] = []
    answering = set(map(str, told.get("answer_session_ids", ())))
    ids = told.get("haystack_session_ids", [""] * len(told["haystack_sessions"]))
    for id, when, chat in zip(ids, told["haystack_dates"], told["haystack_sessions"], strict=True):
        marked = any("has_answer" in turn for turn in chat)
        for number, turn in enumerate(chat):
            if turn.get("has_answer") if marked else str(id) in answering:
                evidence.append(len(messages))
            stamp = f"({when}) " if number == 0 else ""
            messages.append({"role": str(turn["role"]), "content": f"{stamp}{turn['content']}"})
    return messages, evidence


def _probes(
    told: Mapping[str, Any], answer: str, messages: list[Message], evidence: list[int], cut: Cut
) -> Iterator[Probe]:
    reads = read_session(messages)
    start = kept_from(tokens_before(reads), cut.at, KEPT_SHARE * cut.budget)
    literal = answer.strip(" .")
    holding = tuple(at for at in evidence if Text(reads[at].texts).holds(literal))
    tail = Text(text for read in reads[start:] for text in read.texts)
    if literal and holding and not tail.holds(literal):
        yield Probe(
            id="answer",
            kind="recall",
            cut=cut.at,
            question=str(told["question"]),
            literals=(literal,),
            evidence=holding,
        )

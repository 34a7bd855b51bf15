"""Questions by a model: the request that asks for them, and what is read of its reply.

Pure. The model reads the log before the cut as a compaction does: numbered, with long texts clipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from summarizing_context.evaluation.cassettes import Request
from summarizing_context.evaluation.models import view_text
from summarizing_context.evaluation.real.arms import compact_request
from summarizing_context.evaluation.real.recording import ABSENT, CATEGORIES, Case, Category, Question
from summarizing_context.evaluation.real.rendering import Message
from summarizing_context.summarizers.prompts import latest

_TOKENS, _TOKENS_EACH = 500, 120  # of a reply
_WORDS_EACH = 20  # that a forecast assumes, of a question and of an answer


class _Written(msgspec.Struct, frozen=True):
    category: Category
    question: str
    answer: str
    evidence: list[int] = []


class _Reply(msgspec.Struct, frozen=True):
    questions: list[_Written]


def questions_request(maker: str, case: Case, messages: Sequence[Message], *, number: int, replicate: int) -> Request:
    """The request for so many questions about a case."""
    prompt = latest("questions")
    return Request(
        kind="questions",
        maker=maker,
        system=prompt.render(number=number),
        user=(view_text([compact_request(case, messages).user]),),
        max_tokens=_TOKENS + number * _TOKENS_EACH,
        prompt=f"{prompt.name}/v{prompt.version}/{prompt.hash[:16]}",
        replicate=replicate,
    )


def read_questions(text: str, case: Case, *, number: int) -> list[Question]:
    """The questions of a reply, with ids. Raises `ValueError` that says what is wrong with the first bad one."""
    start, stop = text.find("{"), text.rfind("}") + 1
    try:
        written = msgspec.json.decode(text[start:stop], type=_Reply).questions
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a JSON object with questions ({error})") from error
    if not written:
        raise ValueError("no question at all")
    for at, one in enumerate(written, 1):
        if complaint := _complaint(one, case):
            raise ValueError(f"question {at} ({one.category}) {complaint}")
    if len({one.question.strip() for one in written}) < len(written):
        raise ValueError("the same question twice")
    return [
        Question(f"q{at}", one.category, one.question.strip(), one.answer.strip(), one.evidence)
        for at, one in enumerate(written[:number], 1)
    ]


def assumed_questions(number: int) -> list[Question]:
    """What a forecast takes for the questions."""
    words = "word " * _WORDS_EACH
    return [Question(f"q{at}", CATEGORIES[at % len(CATEGORIES)], words, words) for at in range(1, number + 1)]


def _complaint(one: _Written, case: Case) -> str:
    if not one.question.strip() or not one.answer.strip():
        return "lacks its words or its answer"
    if not one.evidence and one.category != ABSENT:
        return "names no message that holds its answer"
    if beyond := [at for at in one.evidence if not 0 <= at < case.cut]:
        return f"names message {beyond[0]}, but there are 0 to {case.cut - 1} before the cut"
    return ""

"""What is put to the reader and to the judge, as requests; and what the judge said.

Pure. View, evidence and answer are data: they stand in a fence, the question outside of the view's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from summarizing_context.core.fencing import fence, neutral
from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.cassettes.requests import Request
from summarizing_context.prompt_library import Prompt, latest

Evidence = Sequence[tuple[int, str]]  # messages, and their words around the answer

ANSWER_TOKENS = 120
VERDICT_TOKENS = 5
RIGHT, WRONG = "RIGHT", "WRONG"

_FENCE = "session_record"
_VERDICT = re.compile(rf"\W*({RIGHT}|{WRONG})\W*", re.IGNORECASE)


def view_text(view: Sequence[str]) -> str:
    """A view as the reader sees it: its texts in their order, in one fence."""
    return fence(_FENCE, "\n\n".join(view))


def reader_request(maker: str, view: str, probe: Probe, replicate: int) -> Request:
    """One question about one view, which `view_text` wrote."""
    prompt = latest("reader")
    return Request(
        kind="reader",
        maker=maker,
        system=prompt.render(max_tokens=ANSWER_TOKENS),
        user=(view, f"Question: {neutral(_one_line(probe.question))}"),
        max_tokens=ANSWER_TOKENS,
        prompt=_named(prompt),
        replicate=replicate,
    )


def judge_request(maker: str, probe: Probe, evidence: Evidence, answer: str, replicate: int) -> Request:
    """One answer to one question, to be marked by what the session says."""
    prompt = latest("judge")
    parts = [
        f"question: {_one_line(probe.question)}",
        f"must say: {_must_say(probe)}",
        f"must not say: {'; '.join(map(_one_line, probe.forbid)) or 'nothing in particular'}",
        "\n".join(["lines of the session:", *(f"- message {at}: {_one_line(words)}" for at, words in evidence)]),
        "\n".join(["answer:", *(f"> {line}" for line in answer.splitlines())]),
    ]
    return Request(
        kind="judge",
        maker=maker,
        system=prompt.render(verdict_right=RIGHT, verdict_wrong=WRONG),
        user=(fence(_FENCE, "\n\n".join(parts)), "Your verdict, one word:"),
        max_tokens=VERDICT_TOKENS,
        prompt=_named(prompt),
        replicate=replicate,
    )


def read_verdict(text: str) -> bool | None:
    """Whether the judge says right; None for what is no verdict. It stands alone on the first or the last line."""
    lines = text.strip().splitlines()
    said = {found[1].upper() for line in (*lines[:1], *lines[-1:]) if (found := _VERDICT.fullmatch(line))}
    return said == {RIGHT} if len(said) == 1 else None


def _must_say(probe: Probe) -> str:
    if probe.kind == "abstention" or not (probe.literals or probe.any_of):
        return "that the session does not say"
    order = " (in this order)" if probe.kind == "ordering" else ""
    parts = ["; ".join(map(_one_line, probe.literals)) + order] if probe.literals else []
    parts += ["one of: " + "; ".join(map(_one_line, probe.any_of))] if probe.any_of else []
    return "; and ".join(parts)


def _named(prompt: Prompt) -> str:
    return f"{prompt.name}/v{prompt.version}/{prompt.hash[:16]}"


def _one_line(text: str) -> str:
    return " ".join(text.split())

"""Questions as a reader can be asked them.

Pure. Hindsight asks for what a later call needs; the reader cannot know that call, so it is shown, with a gap.

What is put to the reader and to the judge, as requests; and what the judge said.

Pure. View, evidence and answer are data: they stand in a fence, the question outside of the view's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.cases.reading import Call, Read
from summarizing_context.evaluation.cassettes.requests import Request
from summarizing_context.evaluation.scoring.verdicts import Text
from summarizing_context.messages.fencing import fence, neutral
from summarizing_context.summarizers.prompts import Prompt, latest

GAP = "▢"

_AROUND = 120  # characters of a text on each side of its gap


def as_asked(probes: Sequence[Probe], reads: Sequence[Read]) -> list[Probe]:
    """The probes with questions that can be asked; without those for which there is none."""
    found = (_with_gap(probe, reads) if probe.kind == "used" else probe for probe in probes)
    return [probe for probe in found if probe is not None]


def _with_gap(probe: Probe, reads: Sequence[Read]) -> Probe | None:
    if probe.used_at is None or not probe.literals:
        return None
    literal, read = probe.literals[0], reads[probe.used_at]
    for call in read.calls:
        if any(Text([text]).holds(literal) for _, text in call.values):
            told = _gapped(call, read.said, literal)
            question = f"Later the agent makes this call: {told}. Which exact value stands where {GAP} is shown?"
            return None if Text([question]).holds(literal) else replace(probe, question=question)
    return None


def _gapped(call: Call, said: Sequence[str], literal: str) -> str:
    """The call, and what is said with it, with a gap for every place of the literal."""
    pattern = re.compile(r"\s+".join(map(re.escape, literal.split())), re.IGNORECASE)
    arguments = ", ".join(f"{name}={_excerpt(pattern.sub(GAP, text))}" for name, text in call.values)
    words = _excerpt(pattern.sub(GAP, " ".join(said)))
    return f"{call.tool}({arguments})" + (f', saying: "{words}"' if words else "")


def _excerpt(text: str) -> str:
    """The words around the first gap, or the first words."""
    flat = " ".join(text.split())
    start = max(0, flat.find(GAP) - _AROUND)
    stop = start + 2 * _AROUND
    return f"{'…' * (start > 0)}{flat[start:stop]}{'…' * (stop < len(flat))}"


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

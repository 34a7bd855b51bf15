"""Questions to a model about a view: the plan, the requests to the reader and to the judge, the judge's verdict.

Pure. View, evidence and answer are fenced as data. The question stands outside the fence. A hindsight question shows
the later call with a gap, because the reader cannot know that call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.model import KINDS, Call, Probe, Read
from summarizing_context.evaluation.cases.verdicts import Text
from summarizing_context.evaluation.cassettes.requests import Request
from summarizing_context.messages.fencing import fence, neutral
from summarizing_context.messages.redaction import Redaction, load_redaction
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.summarizers.prompts import Prompt, latest

GAP = "▢"
_AROUND = 120  # characters of a text on each side of its gap


def answerable(probes: Sequence[Probe], reads: Sequence[Read]) -> list[Probe]:
    """The probes with questions that can be asked; without those for which there is none."""
    found = (_with_gap(probe, reads) if probe.kind == "used" else probe for probe in probes)
    return [probe for probe in found if probe is not None]


def _with_gap(probe: Probe, reads: Sequence[Read]) -> Probe | None:
    if probe.used_at is None or not probe.literals:
        return None
    literal, read = probe.literals[0], reads[probe.used_at]
    for call in read.calls:
        if any(Text([text]).holds(literal) for _, text in call.values):
            call_text = _gapped(call, read.plain_texts, literal)
            question = f"Later the agent makes this call: {call_text}. Which exact value stands where {GAP} is shown?"
            return None if Text([question]).holds(literal) else replace(probe, question=question)
    return None


def _gapped(call: Call, texts: Sequence[str], literal: str) -> str:
    """The call, and what is said with it, with a gap for every place of the literal."""
    pattern = re.compile(r"\s+".join(map(re.escape, literal.split())), re.IGNORECASE)
    arguments = ", ".join(f"{name}={_excerpt(pattern.sub(GAP, text))}" for name, text in call.values)
    words = _excerpt(pattern.sub(GAP, " ".join(texts)))
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
    verdicts = {found[1].upper() for line in (*lines[:1], *lines[-1:]) if (found := _VERDICT.fullmatch(line))}
    return verdicts == {RIGHT} if len(verdicts) == 1 else None


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


READ_ARMS = ("hierarchical", "masking", "tail", "everything", "evidence", "stored", "nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One model, and how it is reached."""

    provider: str
    model: str
    base_url: str | None = None  # for recording only


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPlan:
    """What is asked of the reader and of the judge."""

    reader: Chat
    judge: Chat
    writer: Chat | None = None  # of questions, in recorded answers; the reader if none is named
    summarizer: Chat | None = None  # of summaries, in recorded answers; the writer if none is named
    replicates: int = 3  # answers to one question about one view
    arms: tuple[str, ...] = READ_ARMS
    kinds: tuple[str, ...] = KINDS
    most: int | None = None  # probes of one cut; the kinds in turn
    concurrency: int = 8
    attempts: int = 3
    call_timeout: float = 60.0  # seconds

    @property
    def writes(self) -> Chat:
        """Who writes questions."""
        return self.writer or self.reader

    @property
    def summarizes(self) -> Chat:
        """Who writes summaries."""
        return self.summarizer or self.writes

    def chosen(self, probes: Sequence[Probe]) -> list[Probe]:
        """The probes of one cut that are asked, in their order."""
        queues = {kind: [probe for probe in probes if probe.kind == kind] for kind in self.kinds}
        picked: list[Probe] = []
        while any(queues.values()) and (self.most is None or len(picked) < self.most):
            for queue in queues.values():
                if queue and (self.most is None or len(picked) < self.most):
                    picked.append(queue.pop(0))
        wanted = {probe.id for probe in picked}
        return [probe for probe in probes if probe.id in wanted]


@dataclass(frozen=True, slots=True)
class Tape:
    """Where the replies of a run are kept, and who else speaks through it."""

    path: Path
    reader_plan: ReaderPlan | None = None  # None where a model only summarizes
    redact: str | None = None  # module:function, of what is taken out of messages before anything of them is kept

    def redaction(self) -> Redaction | None:
        """The function that `redact` names. Raises `SettingsError`."""
        return load_redaction(self.redact) if self.redact is not None else None


def check_reader_plan(reader_plan: ReaderPlan, known_arms: Sequence[str]) -> ReaderPlan:
    """The plan as it is, or `SettingsError` with all that is wrong."""
    problems = [_unknown(arm, "arm", known_arms) for arm in reader_plan.arms if arm not in known_arms]
    providers = dict.fromkeys((reader_plan.reader.provider, reader_plan.judge.provider))
    problems += [_unknown(name, "provider", [*PROVIDERS]) for name in providers if name not in PROVIDERS]
    problems += [_unknown(kind, "kind of question", KINDS) for kind in reader_plan.kinds if kind not in KINDS]
    if reader_plan.replicates < 1 or (reader_plan.most is not None and reader_plan.most < 1):
        problems.append("replicates and probes are at least 1")
    if problems:
        raise SettingsError(problems)
    return reader_plan


def _unknown(name: str, what: str, known: Sequence[str]) -> str:
    return f"{name!r} is no {what}; there are {', '.join(known)}"

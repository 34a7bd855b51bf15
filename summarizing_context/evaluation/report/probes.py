"""The part of the page that shows single probes: the question, its evidence, the view's words, the verdict.

Pure. Everything that came from a transcript is escaped here. So many probes are shown as fit: first those that the
reference arm lost, of each kind in turn, so that a person sees what is being lost and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape

from summarizing_context.evaluation.answering.outcomes import AnswerOutcome, agrees, is_right
from summarizing_context.evaluation.arms.table import REFERENCE
from summarizing_context.evaluation.outcomes import ProbeOutcome, RunOutcome, SessionOutcome

MOST_BYTES = 1_250_000  # of all probes together
_MARKED = ("lost", "kept", "stale")


def probes_html(run: RunOutcome) -> str:
    """The sessions with their probes, folded up."""
    shown, left = _chosen(run)
    parts = [_session_html(session, shown[session.id]) for session in run.sessions if shown[session.id]]
    if left:
        parts.append(f'<p class="soft">{left:,} more probes are in report.json; here only so many are shown.</p>')
    return "\n".join(parts)


def _chosen(run: RunOutcome) -> tuple[dict[str, list[str]], int]:
    """The rows of each session, and how many probes were left out."""
    shown: dict[str, list[str]] = {session.id: [] for session in run.sessions}
    queues = [(session, list(_in_turn(session.probes))) for session in run.sessions]
    total = sum(len(queue) for _, queue in queues)
    size = count = 0
    while queues:
        for session, queue in list(queues):
            if not queue:
                queues.remove((session, queue))
                continue
            row = _probe_html(queue.pop(0))
            if size + (more := len(row.encode(errors="replace"))) > MOST_BYTES:
                return shown, total - count
            size, count = size + more, count + 1
            shown[session.id].append(row)
    return shown, 0


def _in_turn(probes: Sequence[ProbeOutcome]) -> Iterator[ProbeOutcome]:
    """Lost ones before kept ones, the kinds in turn."""
    for wanted in (False, True):
        by_kind: dict[str, list[ProbeOutcome]] = {}
        for probe in probes:
            if (probe.kept.get(REFERENCE) == 1) == wanted:
                by_kind.setdefault(probe.kind, []).append(probe)
        while any(by_kind.values()):
            for kind in by_kind:
                if by_kind[kind]:
                    yield by_kind[kind].pop(0)


def _session_html(session: SessionOutcome, rows: Sequence[str]) -> str:
    kept = sum(probe.kept.get(REFERENCE) == 1 for probe in session.probes)
    about = f"{session.messages:,} messages, {session.tokens:,} tokens, {kept} of {len(session.probes)} probes kept"
    return (
        f'<details class="session"><summary>{escape(session.title)} '
        f'<span class="soft">– {escape(about)}</span></summary>{"".join(rows)}</details>'
    )


def _probe_html(probe: ProbeOutcome) -> str:
    mark = probe.kept.get(REFERENCE, 0)
    tone = "good" if mark == 1 else "bad"
    evidence = "".join(
        f'<div class="quote"><span class="soft">message {at}</span> {highlighted(words, probe.literals)}</div>'
        for at, words in probe.evidence
    )
    expected = ", ".join(f"<code>{escape(literal)}</code>" for literal in probe.literals) or "nothing"
    forbidden = ", ".join(f"<code>{escape(literal)}</code>" for literal in probe.forbid)
    found = f'<div class="quote">{highlighted(probe.words, probe.literals)}</div>' if probe.words else "nothing of it"
    used = f", used in message {probe.used_at}" if probe.used_at is not None else ""
    others = " ".join(
        f'<span class="badge {"good" if kept == 1 else "plain"}">{escape(arm)}: {_MARKED[kept]}</span>'
        for arm, kept in probe.kept.items()
        if arm != REFERENCE
    )
    rows = [
        ("expected", expected + (f' <span class="soft">and not</span> {forbidden}' if forbidden else "")),
        ("evidence", evidence or "none, it was never said"),
        ("the view", found),
        (
            "verdict",
            f"{escape(probe.why)} <span class='soft'>({probe.age:,} tokens before message {probe.cut}{used})</span>",
        ),
        ("other arms", others),
    ]
    rows += [("asked as", escape(probe.asked))] if probe.asked else []
    rows += [(f"reader, {arm}", answers_html(answers, probe)) for arm, answers in probe.answers.items()]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{words}</dd>" for name, words in rows)
    return (
        f'<details><summary><span class="badge {tone}">{_MARKED[mark]}</span> '
        f'<span class="soft">{escape(probe.kind)}</span> {escape(probe.question)}</summary>'
        f'<div class="probe"><dl>{listed}</dl></div></details>'
    )


def answers_html(answers: Sequence[AnswerOutcome], probe: ProbeOutcome) -> str:
    """What a reader said of one view: each different answer with how often it came, its mark, and who decided."""
    right = sum(answer.right for answer in answers)
    tone, verdict = ("good", "right") if is_right(answers) else ("bad", "wrong" if agrees(answers) else "split")
    said = "".join(
        f'<div class="quote">{highlighted(answer.words, probe.literals) or "nothing"} <span class="soft">'
        f"{f'{answers.count(answer)} times, ' if answers.count(answer) > 1 else ''}"
        f"{'right' if answer.right else 'wrong'} by {escape(answer.by)}: {escape(answer.why)}</span></div>"
        for answer in dict.fromkeys(answers)
    )
    return f'<span class="badge {tone}">{verdict}, {right} of {len(answers)}</span>{said}'


def highlighted(words: str, literals: Sequence[str]) -> str:
    """The words, escaped, with the literals marked."""
    wanted = sorted({literal for literal in literals if literal.strip()}, key=len, reverse=True)
    if not wanted:
        return escape(words)
    pattern = re.compile("|".join(r"\s+".join(map(re.escape, literal.split())) for literal in wanted), re.IGNORECASE)
    parts, at = [], 0
    for found in pattern.finditer(words):
        parts += [escape(words[at : found.start()]), f"<mark>{escape(found[0])}</mark>"]
        at = found.end()
    return "".join([*parts, escape(words[at:])])

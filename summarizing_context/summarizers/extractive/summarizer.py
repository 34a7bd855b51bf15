"""The extractive summary of a segment, thorough or quick, and of neighbouring summaries; and all extractive passes of a
session.

The blocks of a segment are read in one pass, then each section takes its lines. The quick one, for hundreds of segments
that must be shown at once, weighs no facts. Sentences are quoted verbatim. `statements` tells rules, choices and fixes,
`lines` how much a line is worth, `sections` selects what fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial

from summarizing_context.concurrency import WorkerThread, YieldNow, never_yield
from summarizing_context.errors import SummarizerError
from summarizing_context.extraction.plans import plan_in_call
from summarizing_context.extraction.tool_calls import first_error_line
from summarizing_context.messages.text import cleaned, clip, shown, split_prose, words_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import CallStatistics, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.actions import add_up, base_name, find_actions, read_steps, render_call
from summarizing_context.summarizers.extractive.lines import (
    PROSE,
    Candidate,
    Vocabulary,
    choose_lines,
    find_in_lines,
    newest_of_each_pattern,
    salience,
    says_something,
    sentence,
    worth,
)
from summarizing_context.summarizers.extractive.sections import (
    CONSTRAINTS,
    DECISIONS,
    DONE,
    ERRORS,
    FACTS,
    INTENT,
    NAMES,
    PRIORITY,
    STATE,
    STRICT_RANK,
    Line,
    Sections,
    fit,
    is_rendered,
    nothing_readable,
    read_sections,
    shorten,
    split_blocks,
    split_children,
)
from summarizing_context.summarizers.extractive.statements import has_cue, is_informative, rules_of_guide, rules_said

RECIPE = "extractive/v10"  # another name whenever the same content would give other bytes
_LEAF_SHARES = (18, 30, 14, 12, 14, 10, 40)  # percent of the room for each section
_ROLLUP_SHARES = (14, 30, 18, 14, 14, 6, 34)
_SKIM_SHARES = (20, 60, 25, 0, 25, 20, 15)
_GUIDE_RANK = 100  # of facts: rules of guides are kept before all others


def summarize_extractively(
    content: str,
    *,
    kind: str = "segment",  # or "rollup"
    max_tokens: int,
    yield_now: YieldNow = never_yield,
) -> str:
    """Return the summary of a job's content in the fixed sections, at most `max_tokens` (at least 1).

    All of `content` is read; `yield_now` is called all along. The result is empty only where `content` is.
    """
    if not content:
        return ""
    if kind == "rollup":
        return fit(rollup_sections(content, max_tokens, yield_now), _ROLLUP_SHARES, max_tokens)
    return fit(leaf_sections(content, yield_now), _LEAF_SHARES, max_tokens)


def skim(content: str, max_tokens: int) -> str:
    """Return a small summary without facts and decisions, for many segments at once."""
    return fit(leaf_sections(content, is_quick=True), _SKIM_SHARES, max_tokens) if content else ""


def brief_of(text: str, max_tokens: int = 60) -> str:
    """Return one to three lines with the most important of a summary, or of a short segment that is its own summary.

    A line for each of the most important sections that fit, at most `max_tokens`.
    """
    if not text:
        return ""
    if is_rendered(text):
        text = skim(text, 4 * max_tokens)
    newest = [[line.text for line in lines[:-5:-1]] for lines in read_sections(text)]
    lines: list[str] = []
    for section in PRIORITY:
        line = f"{NAMES[section]}:"
        for bullet in newest[section]:  # a bullet that only leads to something, with a colon, takes the next one along
            longer = f"{line} {bullet}" if line.endswith(":") else f"{line} · {bullet}"
            if estimate_text("\n".join([*lines, longer])) < max_tokens:
                line = longer
        lines += [] if line.endswith(":") or len(lines) == 3 else [line]
    best = next((newest[section][0] for section in PRIORITY if newest[section]), "")
    return "\n".join(lines) or shorten(best or nothing_readable(text)[0].text, max_tokens)


def cut_to(summary: str, max_tokens: int) -> str:
    """Return a summary without the last lines of those sections that take most for their share; a brief where none is
    left."""
    by_heading = {f"## {name}": share for name, share in zip(NAMES, _ROLLUP_SHARES, strict=True)}
    parts = [part.rstrip("\n").split("\n") for part in re.split(r"^(?=## )", summary, flags=re.MULTILINE)]
    shares = [by_heading.get(part[0], min(_ROLLUP_SHARES)) for part in parts]
    while any(len(part) > 1 for part in parts):
        text = "\n\n".join("\n".join(part) for part in parts if len(part) > 1)
        if estimate_text(text) <= max_tokens:
            return text
        costs = [sum(estimate_text(f"{line}\n") for line in part[1:]) for part in parts]
        parts[max(range(len(parts)), key=lambda at: costs[at] / shares[at])].pop()
    return brief_of(summary, max_tokens=max_tokens)


def leaf_sections(content: str, yield_now: YieldNow = never_yield, *, is_quick: bool = False) -> Sections:
    """Return all lines that a segment's summary may hold, ranked within their sections.

    `yield_now` is called all along.
    """
    blocks = split_blocks(content)
    steps = read_steps(blocks)
    sections: Sections = [[] for _ in NAMES]

    # what people say: rules, in a chat wishes too; then all else
    human = [(at, block.body) for at, block in enumerate(blocks) if block.kind == "user"]
    rules = [rule for _, body in human for rule in rules_said(body, wishes=not steps)]
    sections[CONSTRAINTS] = _last_of_each(rules)
    asked = [sentence(text, at) for at, body in human for text in split_prose(cleaned(body))[0]]
    sections[INTENT] = _intent(asked, {rule.text for rule in rules})

    # the sentences and lines of all other blocks that say something, in order
    calls, answers = {step.at: step for step in steps}, {step.answered: step for step in steps}
    found: list[Candidate] = []
    for at, block in enumerate(blocks):
        yield_now(len(block.body))
        if block.kind == "user":
            found += [one for one in asked if one.block == at]
        elif block.kind in ("result", "failed"):
            answer = answers.get(at)
            source = base_name(answer.path) if answer and answer.path and answer.looks else ""
            if answer and source:
                guide = rules_of_guide(answer.path, block.body)
                sections[FACTS] += [Line(f"{source}: {text}", _GUIDE_RANK) for text in guide]
            found += [] if is_quick else find_in_lines(cleaned(block.body), block.kind, at, source)
        elif block.kind == "call" and not is_quick:  # without path and command, which the section of actions shows
            step = calls[at]
            items = [(key, value) for key, value in step.items if value not in (step.path, step.command)]
            values = "\n".join(value if len(value) > 60 else f"{key}={value}" for key, value in items)
            found += find_in_lines(values if step.items else step.body, "arguments", at)
        elif block.kind != "call":
            prose, code = split_prose(cleaned(block.body))
            found += [sentence(text, at, block.kind if block.kind in PROSE else "other") for text in prose]
            for part in () if is_quick else code:
                found += find_in_lines(part, "code", at)
    spoken = [one for one in found if one.kind in ("assistant", "thinks")]
    sections[DONE] = find_actions(steps)

    # each error once, with its fix if the agent reports one, or the note that the same call passed later
    passed = {(step.tool, step.command, step.path): step.at for step in steps if step.answered >= 0 and not step.error}
    errors: dict[str, Line] = {}
    for step in [step for step in steps if step.error][-16:]:
        # the fix: the first sentence soon after that reports one; one that shares a word with the error wins
        soon = [one for one in spoken if step.answered < one.block <= step.answered + 12][:60]
        fixes = [one for one in soon if has_cue(one, "fix") and is_informative(one)]
        related = [one for one in fixes if not set(words_of(step.error)).isdisjoint(one.words)]
        later = passed.get((step.tool, step.command, step.path), -1) > step.at
        fix = f" → {clip(shown((related or fixes)[0].text), 160)}" if fixes else " → passed later" if later else ""
        errors.pop(step.error, None)
        line = Line(f"{render_call(step, 70)}: {step.error}{fix}", (3 if step.looks else 6) + (0 if later else 3))
        errors[step.error] = line
    sections[ERRORS] = list(errors.values())

    # the state: the open tasks of the newest list, the newest message's best and last words, a call without result
    keys = ("todos", "plan", "tasks", "items", "steps")
    plans = (plan_in_call(step.body, keys, ()) for step in reversed(steps) if '"status"' in step.body)
    plan = [task for task in next(filter(None, plans), ()) if task.is_open]
    doing = [Line(f"in progress: {clip(shown(task.text), 120)}", 12) for task in plan if task.mark == "[>]"]
    waiting = "; ".join(clip(shown(task.text), 120) for task in plan if task.mark != "[>]")
    sections[STATE] = [*doing[:3], *([Line(clip(f"to do: {waiting}", 300), 11)] if waiting else [])]
    vocabulary = Vocabulary([] if is_quick else found)
    yield_now(len(content))
    if spoken:
        newest = [one for one in spoken if one.block == spoken[-1].block]
        ranks = [salience(one, vocabulary) for one in newest]
        best = sorted({*sorted(range(len(newest)), key=lambda at: ranks[at])[-2:], len(newest) - 1})
        texts = dict.fromkeys(shown(newest[at].text) for at in (best[-1:] if is_quick else best))
        sections[STATE] += [Line(text, 7 + place) for place, text in enumerate(texts)]
    if steps and steps[-1].answered < 0:
        sections[STATE].append(Line(f"called, no result yet: {render_call(steps[-1])}", 9))

    # the facts and choices that are worth it, without what is said already
    said = "\n".join(line.text for section in sections for line in section)
    found = [one for one in found if not is_quick and one.kind != "user" and (says_something(one) or _is_choice(one))]
    yield_now(len(content))
    worths = [worth(salience(one, vocabulary), one) for one in found]
    for one, line in choose_lines(found, worths, vocabulary):
        if line.text not in said:
            sections[DECISIONS if _is_choice(one) else FACTS].append(line)
    if not any(sections):  # the first words of the newest block that has some
        bodies = (clip(shown(cleaned(block.body[:2000])), 200) for block in reversed(blocks))
        words = next((words for words in bodies if len(words) > 1), "")
        sections[FACTS] = [Line(words)] if words else nothing_readable(content)
    return sections


def _is_choice(one: Candidate) -> bool:
    return one.kind in ("assistant", "thinks") and (has_cue(one, "decision") or has_cue(one, "reason"))


def _intent(human: Iterable[Candidate], known: set[str]) -> list[Line]:
    """Return what humans said, quoted, oldest first, at most eight sentences a message; of requests that differ in
    their numbers alone the newest two.

    The beginnings of all messages rank before what follows them, the first and the newest message before the others.
    """
    by_block: dict[int, list[str]] = {}
    for one in human:
        if len(one.words) > 1 and (quote := f'"{shown(one.text)}"') not in known:
            by_block.setdefault(one.block, []).append(quote)
    lines: list[Line] = []
    for at, quotes in enumerate(by_block.values()):
        is_end = at in (0, len(by_block) - 1)
        for number, quote in enumerate(quotes[:8]):
            late = max(number - (2 if is_end else 0), 0)
            lines.append(Line(quote, at + (8 - late) * len(by_block)))
    lines = _last_of_each(lines)
    return [lines[at] for at in newest_of_each_pattern([line.text for line in lines])]


def _last_of_each(lines: Sequence[Line]) -> list[Line]:
    """Return lines of the same text once, where the last one stands."""
    return list({line.text: line for line in reversed(lines)}.values())[::-1]


_SPOKEN = frozenset(b"the a an is are was to of and in it for that with on not but so der die das und ist".split())


def rollup_sections(content: str, max_tokens: int, yield_now: YieldNow = never_yield) -> Sections:
    """Return all lines that a merge of neighbouring summaries may hold, section by section, oldest first.

    Constraints stay before everything else; of the states the latest wins; what repeats is said once. A segment so
    short that its own text stands for it is summarized first.
    """
    texts = split_children(content)
    children: list[Sections] = []
    for text in texts:
        yield_now(len(text))
        if is_rendered(text):
            text = fit(leaf_sections(text, yield_now), _LEAF_SHARES, max(max_tokens // len(texts), 40))
        children.append(read_sections(text))

    def told(section: int) -> list[Line]:
        return [line for child in children for line in child[section]]

    def as_candidates(lines: Sequence[Line]) -> list[Candidate]:
        found = [sentence(line.text, 0, "assistant") for line in lines]
        return [one if not _SPOKEN.isdisjoint(one.words) else one._replace(kind="told") for one in found]

    def thin(lines: Sequence[Line]) -> list[Line]:
        """Return each line once, ranked by worth, news and age: the oldest counts four parts where the newest counts
        five. A line that a child kept has some worth already."""
        found = as_candidates(_last_of_each(lines))
        scores = [worth(1_000 + salience(one, vocabulary), one) * (4 * len(found) + at) for at, one in enumerate(found)]
        return [line for _, line in choose_lines(found, scores, vocabulary, others=120)]

    sections: Sections = [[] for _ in NAMES]
    asked = list(dict.fromkeys(line.text for line in told(INTENT)))  # the first request, then the newest
    sections[INTENT] = [Line(asked[at], at or len(asked)) for at in newest_of_each_pattern(asked)]
    sections[CONSTRAINTS] = [Line(line.text, STRICT_RANK) for line in _last_of_each(told(CONSTRAINTS))]
    errors = _last_of_each(told(ERRORS))  # the newest is kept longest, and longer than it those without a known fix
    late = [at + (0 if " → " in error.text else len(errors)) for at, error in enumerate(errors)]
    sections[ERRORS] = [Line(error.text, rank) for error, rank in zip(errors, late, strict=True)]
    stated = [child[STATE] for child in children if child[STATE]]
    sections[STATE] = [Line(line.text, at) for at, line in enumerate(stated[-1])] if stated else []
    passing = ("in progress: ", "to do: ", "called, no result yet: ")  # a state that a later one replaces
    facts = [*told(FACTS), *(line for lines in stated[:-1] for line in lines if not line.text.startswith(passing))]
    done, decided = told(DONE), told(DECISIONS)
    vocabulary = Vocabulary([*(sentence(text) for text in asked), *as_candidates([*done, *decided, *facts])])
    added = add_up(done)
    sections[DONE] = [line for line in added if line.rank] + thin([line for line in added if not line.rank])
    sections[DECISIONS], sections[FACTS] = thin(decided), thin(facts)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def error_line(result: str, failed: bool) -> str:
    """Return the line of a result that names the error; "" if it names none. Of a huge one both ends are read."""
    ends = result if len(result) <= 2_000_000 else f"{result[:1_000_000]}\n{result[-1_000_000:]}"
    return first_error_line(cleaned(ends), failed)


class ExtractiveSummarizer:
    """Summarizes one job at a time in a worker thread, which it closes: a given one, or one of its own.

    Nothing limits it: it is always ready, and calls nobody.
    """

    recipe = RECIPE

    def __init__(self, *, thread: WorkerThread | None = None) -> None:
        self._thread = WorkerThread("extractive") if thread is None else thread
        self._closed = False

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job. When cancelled, the thread only finishes the segment it is reading."""
        if self._closed:
            raise SummarizerError("the extractive summarizer is closed; open a new context to summarize again")
        read = partial(summarize_extractively, job.content, kind=job.kind, max_tokens=job.max_tokens)
        text = await self._thread.run(partial(read, yield_now=self._thread.yield_now))
        return SummaryReply(text, input_tokens=0, output_tokens=0)

    def ready_in(self) -> float:
        return 0.0

    def statistics(self) -> CallStatistics:
        return CallStatistics()

    async def close(self) -> None:
        """Drop the jobs that wait, let the running one finish, and end the thread. May be called twice."""
        self._closed = True
        await self._thread.close()

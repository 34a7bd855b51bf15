"""The extractive summary of one segment. One pass reads its blocks, then rules of their own fill each section.

Pure. `sections` selects what fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.messages.text import cleaned, clip, shown, split_prose, words_of
from summarizing_context.summarizers.extractive.actions import (
    Step,
    base_name,
    find_actions,
    is_look,
    last_call,
    read_steps,
    render_call,
)
from summarizing_context.summarizers.extractive.parameters import SHIPPED, ExtractiveParameters, Weights
from summarizing_context.summarizers.extractive.scoring import Found, count_values, find_facts, find_in_lines
from summarizing_context.summarizers.extractive.sections import (
    CONSTRAINTS,
    DECISIONS,
    DONE,
    ERRORS,
    FACTS,
    INTENT,
    STATE,
    Block,
    Line,
    Sections,
    empty_sections,
    nothing_readable,
    split_blocks,
)
from summarizing_context.summarizers.extractive.statements import (
    Sentence,
    find_constraints,
    find_decisions,
    find_fix,
    find_intent,
    find_outcomes,
    find_state,
    sentence,
)

_TODO = re.compile(r"\{[^{}]{1,600}\}")

_TODO_TEXT = ("content", "step", "title", "task", "text", "description")

_MOST_ERRORS = 16

_DONE_WORDS = frozenset({"completed", "complete", "done", "cancelled", "canceled", "closed"})

_ROLES = frozenset(("user", "assistant", "thinks", "system", "note", "other"))


class _Read:
    """The sentences, candidate facts and errors of all blocks, gathered in one pass."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self.human: list[Sentence] = []
        self.agent: list[Sentence] = []
        self.thoughts: list[Sentence] = []
        self.found: list[Found] = []
        self.pasted_errors: list[str] = []


def leaf_sections(content: str, by: ExtractiveParameters = SHIPPED, yield_now: YieldNow = never_yield) -> Sections:
    """All lines that a segment's summary may hold, ranked within their sections. `yield_now` is called all along."""
    blocks = split_blocks(content)
    steps = read_steps(blocks)
    read = _read_blocks(blocks, steps, by.weights, yield_now)
    yield_now(len(content))
    sections = empty_sections()
    sections[CONSTRAINTS] = find_constraints(block.body for block in blocks if block.kind == "user")
    sections[INTENT] = find_intent(read.human, {line.text for line in sections[CONSTRAINTS]})
    sections[ERRORS] = _error_lines(steps, read)
    sections[STATE] = _state_lines(steps, read)
    yield_now(len(content))
    known = {line.text for section in (STATE, CONSTRAINTS, INTENT) for line in sections[section]}
    sections[DECISIONS] = _unless(known, find_decisions(read.agent, read.human, read.thoughts))
    known.update(line.text for line in sections[DECISIONS])
    sections[DONE] = [*find_actions(steps, by), *_unless(known, find_outcomes(read.agent, by.ranks.outcome))]
    yield_now(len(content))
    shown_lines = [line.text for section in sections for line in section]
    talk = (one.words for one in (*read.human, *read.agent, *read.thoughts))
    sections[FACTS] = find_facts(read.found, talk, shown_lines, by)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def _unless(known: Container[str], lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.text not in known]


def _read_blocks(blocks: Sequence[Block], steps: Sequence[Step], weights: Weights, yield_now: YieldNow) -> _Read:
    read = _Read(weights)
    spoken = {"user": read.human, "assistant": read.agent, "thinks": read.thoughts}
    calls = {step.at: step for step in steps}
    answers = {step.answered: step for step in steps}
    for at, block in enumerate(blocks):
        yield_now(len(block.body))
        if block.kind == "user" and (error := first_error_line(block.body, False)):
            read.pasted_errors.append(error)
        if block.kind in _ROLES:
            _read_prose(read, spoken.get(block.kind), at, block)
        elif block.kind == "call":
            read.found.extend(_argument_lines(calls[at], weights.arguments))
        elif block.kind in ("result", "failed"):
            role, source = _result_weight(answers.get(at), weights)
            read.found.extend(find_in_lines(cleaned(block.body), role, source))
    return read


def _read_prose(read: _Read, spoken: list[Sentence] | None, at: int, block: Block) -> None:
    prose, code = split_prose(cleaned(block.body))
    sentences = [sentence(text, at) for text in prose]
    if spoken is not None:
        spoken.extend(sentences)
    role: int = getattr(read.weights, block.kind)
    read.found.extend(Found(one.text, one.words, role, "", count_values(one.text)) for one in sentences)
    for part in code:
        read.found.extend(find_in_lines(part, read.weights.code))


def _argument_lines(step: Step, weight: int) -> list[Found]:
    """The lines of a call's arguments, without path and command: the section of actions shows these."""
    if not step.items:
        return find_in_lines(step.body, weight)
    already_shown = (step.path, step.command)
    texts = [value if len(value) > 60 else f"{key}={value}" for key, value in step.items if value not in already_shown]
    return find_in_lines("\n".join(texts), weight)


def _result_weight(step: Step | None, weights: Weights) -> tuple[int, str]:
    """How much the lines of a result weigh, and from which file they were read."""
    if step is None:
        return weights.result, ""
    if not is_look(step):
        return (weights.changed if step.path and " " not in step.command else weights.result), ""
    if step.path:
        return weights.looked, base_name(step.path)
    return (weights.looked if step.command else weights.result), ""


def _error_lines(steps: Sequence[Step], read: _Read) -> list[Line]:
    """Each error once, with its fix if the agent reports one, or the note that the same call passed later."""
    went_well = {_call_of(step): at for at, step in enumerate(steps) if step.answered >= 0 and not step.error}
    lines: dict[str, Line] = {}
    for at in [at for at, step in enumerate(steps) if step.error][-_MOST_ERRORS:]:
        step = steps[at]
        fix = find_fix(read.agent or read.thoughts, frozenset(words_of(step.error)), step.answered)
        later = went_well.get(_call_of(step), -1) > at
        text = f"{render_call(step, 70)}: {step.error}"
        text += f" → {clip(fix, 160)}" if fix else " → passed later" if later else ""
        lines.pop(step.error, None)
        lines[step.error] = Line(text, (3 if is_look(step) else 6) + (0 if later else 3))
    return [*lines.values(), *(Line(f"user: {error}", 5) for error in dict.fromkeys(read.pasted_errors[-4:]))]


def _call_of(step: Step) -> tuple[str, str, str]:
    return step.tool, step.command, step.path


def _state_lines(steps: Sequence[Step], read: _Read) -> list[Line]:
    lines = find_state(read.agent, read.thoughts)
    for step in reversed(steps):
        if '"status"' in step.body and (todo := _todo_lines(step.body)):
            lines = [*todo, *lines]
            break
    if open_call := last_call(steps):
        lines.append(Line(f"called, no result yet: {render_call(open_call)}", 9))
    return lines


def _todo_lines(body: str) -> list[Line]:
    """The unfinished tasks of a to-do list: `in progress` and `to do`."""
    doing: list[str] = []
    waiting: list[str] = []
    for item in _TODO.findall(body[:20_000]):
        try:
            task = json.loads(item)
        except ValueError:
            continue
        text = next((str(task[key]) for key in _TODO_TEXT if task.get(key)), "")
        status = str(task.get("status", ""))
        if text and status and status not in _DONE_WORDS:
            (doing if "progress" in status else waiting).append(clip(shown(text), 120))
    tasks = [Line(f"in progress: {text}", 10) for text in doing[:3]]
    return [*tasks, Line(clip("to do: " + "; ".join(waiting), 300), 9)] if waiting else tasks

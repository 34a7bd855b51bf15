"""The extractive summary of one segment. One pass reads its blocks, then each section takes its lines.

Pure. `salience` says how much a line is worth, `sections` selects what fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.messages.text import cleaned, clip, shown, split_prose, words_of
from summarizing_context.summarizers.extractive.actions import (
    Step,
    base_name,
    find_actions,
    last_call,
    read_steps,
    render_call,
)
from summarizing_context.summarizers.extractive.parameters import SHIPPED, ExtractiveParameters
from summarizing_context.summarizers.extractive.salience import PROSE, Found, Place, Talk, salience
from summarizing_context.summarizers.extractive.scoring import choose_lines, find_in_lines, find_names, without_count
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
    find_constraints,
    find_fix,
    find_intent,
    is_choice,
    sentence,
)

_TODO = re.compile(r"\{[^{}]{1,600}\}")

_TODO_TEXT = ("content", "step", "title", "task", "text", "description")

_MOST_ERRORS = 16

_MOST_OPEN = 3  # sentences about where things stand

PASSING = ("in progress: ", "to do: ", "called, no result yet: ")  # a state that a later one replaces

_LONG = 6  # sentences of a long message

_DONE_WORDS = frozenset({"completed", "complete", "done", "cancelled", "canceled", "closed"})


def leaf_sections(content: str, by: ExtractiveParameters = SHIPPED, yield_now: YieldNow = never_yield) -> Sections:
    """All lines that a segment's summary may hold, ranked within their sections. `yield_now` is called all along."""
    blocks = split_blocks(content)
    steps = read_steps(blocks)
    talk, found = read_lines(blocks, steps, yield_now)
    yield_now(len(content))
    scored = [(salience(one, talk) if one.kind != "user" else 0, one) for one in found]
    yield_now(len(content))
    spoken = [(score, one) for score, one in scored if one.kind in ("assistant", "thinks")]
    human = [one for one in found if one.kind == "user"]
    sections = empty_sections()
    sections[CONSTRAINTS] = find_constraints(block.body for block in blocks if block.kind == "user")
    sections[INTENT] = find_intent(human, {line.text for line in sections[CONSTRAINTS]})
    sections[ERRORS] = _error_lines(blocks, steps, [one for _, one in spoken])
    sections[STATE] = _state_lines(steps, spoken)
    sections[DONE] = find_actions(steps, by)
    told = "\n".join(line.text for section in sections for line in section)
    chosen = choose_lines(found, [worth(score, one, by) for score, one in scored], talk, by.facts)
    chosen = [(one, line) for one, line in chosen if without_count(line.text) not in told]
    sections[FACTS] = find_names(found, by)
    for one, line in chosen:
        sections[DECISIONS if is_choice(one) else FACTS].append(line)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def worth(score: int, one: Found, by: ExtractiveParameters) -> int:
    """Sentences count whole, lines of results and arguments in part: what they repeat can be read again."""
    if one.kind == "user" or (one.kind in PROSE and score < by.facts.least):
        return 0
    return score * 100 if one.kind in PROSE else score * by.facts.share


def read_lines(
    blocks: Sequence[Block], steps: Sequence[Step] | None = None, yield_now: YieldNow = never_yield
) -> tuple[Talk, list[Found]]:
    """The sentences and lines of all blocks that say something, in order, and what people and the agent speak of."""
    steps = read_steps(blocks) if steps is None else steps
    calls = {step.at: step for step in steps}
    answers = {step.answered: step for step in steps}
    newest = {block.kind: at for at, block in enumerate(blocks)}
    found: list[Found] = []
    for at, block in enumerate(blocks):
        yield_now(len(block.body))
        if block.kind == "call":
            found += find_in_lines(_arguments(calls[at]), "arguments", at)
        elif block.kind in ("result", "failed"):
            step = answers.get(at)
            source = base_name(step.path) if step and step.path and step.looks else ""
            found += find_in_lines(cleaned(block.body), block.kind, at, source)
        else:
            closing = at + 1 == len(blocks) or blocks[at + 1].kind == "user"
            found += _prose(at, block, closing, newest[block.kind] == at)
    return Talk(found), found


def _prose(at: int, block: Block, closing: bool, newest: bool) -> list[Found]:
    prose, code = split_prose(cleaned(block.body))
    kind = block.kind if block.kind in PROSE else "other"
    last, is_long = len(prose) - 1, len(prose) > _LONG
    found = [
        sentence(text, at, kind, Place(number == 0, number == last, is_long, closing, newest))
        for number, text in enumerate(prose)
    ]
    return [*found, *(line for part in code for line in find_in_lines(part, "code", at))]


def _arguments(step: Step) -> str:
    """A call's arguments without path and command: the section of actions shows these."""
    if not step.items:
        return step.body
    already_shown = (step.path, step.command)
    return "\n".join(
        value if len(value) > 60 else f"{key}={value}" for key, value in step.items if value not in already_shown
    )


def _error_lines(blocks: Sequence[Block], steps: Sequence[Step], agent: Sequence[Found]) -> list[Line]:
    """Each error once, with its fix if the agent reports one, or the note that the same call passed later."""
    went_well = {_call_of(step): at for at, step in enumerate(steps) if step.answered >= 0 and not step.error}
    lines: dict[str, Line] = {}
    for at in [at for at, step in enumerate(steps) if step.error][-_MOST_ERRORS:]:
        step = steps[at]
        fix = find_fix(agent, frozenset(words_of(step.error)), step.answered)
        later = went_well.get(_call_of(step), -1) > at
        text = f"{render_call(step, 70)}: {step.error}"
        text += f" → {clip(fix, 160)}" if fix else " → passed later" if later else ""
        lines.pop(step.error, None)
        lines[step.error] = Line(text, (3 if step.looks else 6) + (0 if later else 3))
    pasted = (first_error_line(block.body, False) for block in blocks if block.kind == "user")
    return [*lines.values(), *(Line(f"user: {error}", 5) for error in [*dict.fromkeys(filter(None, pasted))][-4:])]


def _call_of(step: Step) -> tuple[str, str, str]:
    return step.tool, step.command, step.path


def _state_lines(steps: Sequence[Step], spoken: Sequence[tuple[int, Found]]) -> list[Line]:
    """The last sentence and the best of the newest message, the tasks that are open, and a call without result."""
    newest = [(score, at) for at, (score, one) in enumerate(spoken) if one.block == spoken[-1][1].block]
    best = {at for _, at in sorted(newest, reverse=True)[: _MOST_OPEN - 1]} | {len(spoken) - 1}
    texts = dict.fromkeys(shown(spoken[at][1].text) for at in sorted(best) if at >= 0)
    lines = [Line(text, 7 + place) for place, text in enumerate(texts)]
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
    tasks = [Line(f"in progress: {text}", 12) for text in doing[:3]]
    return [*tasks, Line(clip("to do: " + "; ".join(waiting), 300), 11)] if waiting else tasks

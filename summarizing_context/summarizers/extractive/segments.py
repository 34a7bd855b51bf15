"""The extractive summary of one segment: a thorough one, and a quick one by plain searches.

Pure. The thorough one reads its blocks in one pass, then each section takes its lines. The quick one is for hundreds of
segments that must be shown at once. `lines` says how much a line is worth, `sections` selects what fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import islice

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.tool_calls import looks_only, verb_of
from summarizing_context.messages.text import cleaned, clip, list_whole, shown, split_prose, words_of
from summarizing_context.summarizers.extractive.actions import (
    Step,
    base_name,
    find_actions,
    last_call,
    read_steps,
    render_call,
)
from summarizing_context.summarizers.extractive.figures import FACTS as FACT_FIGURES
from summarizing_context.summarizers.extractive.lines import (
    PROSE,
    Candidate,
    Place,
    Vocabulary,
    choose_lines,
    find_in_lines,
    find_names,
    salience,
    without_count,
)
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


def leaf_sections(content: str, yield_now: YieldNow = never_yield) -> Sections:
    """All lines that a segment's summary may hold, ranked within their sections. `yield_now` is called all along."""
    blocks = split_blocks(content)
    steps = read_steps(blocks)
    vocabulary, found = read_lines(blocks, steps, yield_now)
    yield_now(len(content))
    scored = [(salience(one, vocabulary) if one.kind != "user" else 0, one) for one in found]
    yield_now(len(content))
    spoken = [(score, one) for score, one in scored if one.kind in ("assistant", "thinks")]
    human = [one for one in found if one.kind == "user"]
    sections = empty_sections()
    sections[CONSTRAINTS] = find_constraints(block.body for block in blocks if block.kind == "user")
    sections[INTENT] = find_intent(human, {line.text for line in sections[CONSTRAINTS]})
    sections[ERRORS] = _error_lines(blocks, steps, [one for _, one in spoken])
    sections[STATE] = _state_lines(steps, spoken)
    sections[DONE] = find_actions(steps)
    told = "\n".join(line.text for section in sections for line in section)
    chosen = choose_lines(found, [worth(score, one) for score, one in scored], vocabulary, FACT_FIGURES)
    chosen = [(one, line) for one, line in chosen if without_count(line.text) not in told]
    sections[FACTS] = find_names(found)
    for one, line in chosen:
        sections[DECISIONS if is_choice(one) else FACTS].append(line)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def worth(score: int, one: Candidate) -> int:
    """Sentences count whole, lines of results and arguments in part: what they repeat can be read again."""
    if one.kind == "user" or (one.kind in PROSE and score < FACT_FIGURES.least):
        return 0
    return score * 100 if one.kind in PROSE else score * FACT_FIGURES.share


def read_lines(
    blocks: Sequence[Block], steps: Sequence[Step] | None = None, yield_now: YieldNow = never_yield
) -> tuple[Vocabulary, list[Candidate]]:
    """The sentences and lines of all blocks that say something, in order, and what people and the agent speak of."""
    steps = read_steps(blocks) if steps is None else steps
    calls = {step.at: step for step in steps}
    answers = {step.answered: step for step in steps}
    newest = {block.kind: at for at, block in enumerate(blocks)}
    found: list[Candidate] = []
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
    return Vocabulary(found), found


def _prose(at: int, block: Block, closing: bool, newest: bool) -> list[Candidate]:
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


def _error_lines(blocks: Sequence[Block], steps: Sequence[Step], agent: Sequence[Candidate]) -> list[Line]:
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


def _state_lines(steps: Sequence[Step], spoken: Sequence[tuple[int, Candidate]]) -> list[Line]:
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


SKIM_SHARES = (20, 60, 25, 0, 25, 20, 15)

_FAILURES = ("Traceback (most", "\nFAILED", "\n--- FAIL", "rror: ", "xit code ", "fatal: ", "panic: ", "ERROR")

_PATH = re.compile(r'path":\s?"([^"\\\n]{1,300})"')

_END_CHARACTERS = 500  # characters; twice as many at the end of a block are read


def skim_sections(content: str) -> Sections:
    """The few lines that plain searches find."""
    blocks = split_blocks(content)
    sections = empty_sections()
    human = [(at, block) for at, block in enumerate(blocks) if block.kind == "user" and block.body]
    sections[CONSTRAINTS] = find_constraints(block.body for _, block in human)
    known = {line.text for line in sections[CONSTRAINTS]}
    if human:
        sections[INTENT] = find_intent(_sentences(human[-1:]), known)[-1:]
    sections[ERRORS] = _failures(blocks)
    sections[DONE] = _paths(blocks)
    spoken = [(at, block) for at, block in enumerate(blocks) if block.kind in ("assistant", "thinks")][-1:]
    if last := [one for one in _sentences(spoken) if len(one.words) > 3][-1:]:
        sections[STATE] = [Line(shown(last[0].text))]
    if not any(sections):
        sections[FACTS] = _any_line(blocks, content)
    return sections


def _sentences(blocks: Iterable[tuple[int, Block]]) -> list[Candidate]:
    """The sentences at the end of these blocks."""
    return [sentence(text, at) for at, block in blocks for text in split_prose(cleaned(_end_of(block.body)))[0]]


def _end_of(body: str) -> str:
    """The last lines of a body, or the whole words near its end."""
    if len(body) <= 2 * _END_CHARACTERS:
        return body
    low = len(body) - 2 * _END_CHARACTERS
    at = body.find("\n", low)
    return body[at if at >= 0 else max(body.find(" ", low), low) :]


def _failures(blocks: Sequence[Block]) -> list[Line]:
    lines: dict[str, Line] = {}
    for block in blocks:
        failed = block.kind == "failed"
        if not failed and (block.kind != "result" or looks_only(block.tool)):
            continue
        if failed or any(mark in block.body for mark in _FAILURES):
            line = first_error_line(block.body, failed)
            if line:
                lines.pop(line, None)
                lines[line] = Line(f"{block.tool}: {line}", 2 if failed else 1)
    return list(lines.values())[-6:]


def _paths(blocks: Sequence[Block]) -> list[Line]:
    changed: dict[str, None] = {}
    looked: dict[str, None] = {}
    for block in blocks:
        if block.kind == "call" and 'path":' in block.body:
            names = changed if verb_of(block.tool) else looked
            for found in islice(_PATH.finditer(block.body), 8):
                names[found[1]] = None
    lines = [Line(f"changed {list_whole(changed, 240)}", 2)] if changed else []
    return [*lines, Line(f"looked at {list_whole(looked, 160)}", 1)] if looked else lines


def _any_line(blocks: Sequence[Block], content: str) -> list[Line]:
    """The first words of the newest block that has some."""
    for block in reversed(blocks):
        if len(block.body) > 1 and len(words := clip(shown(cleaned(block.body[:2000])), 200)) > 1:
            return [Line(words)]
    return nothing_readable(content)

"""The extractive summary of one segment: a thorough one, and a quick one by plain searches.

Pure. The thorough one reads its blocks in one pass, then each section takes its lines. The quick one is for hundreds of
segments that must be shown at once. `lines` says how much a line is worth, `sections` selects what fits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.extraction.error_lines import first_error_line
from summarizing_context.extraction.tool_calls import looks_only, verb_of
from summarizing_context.messages.text import cleaned, clip, list_whole, shown, split_prose, words_of
from summarizing_context.summarizers.extractive.actions import Step, base_name, find_actions, read_steps, render_call
from summarizing_context.summarizers.extractive.lines import (
    PROSE,
    Candidate,
    Place,
    Vocabulary,
    choose_lines,
    find_in_lines,
    find_names,
    salience,
    sentence,
    without_count,
    worth,
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
from summarizing_context.summarizers.extractive.statements import find_constraints, find_fix, find_intent, is_choice

PASSING = ("in progress: ", "to do: ", "called, no result yet: ")  # a state that a later one replaces


def leaf_sections(content: str, yield_now: YieldNow = never_yield) -> Sections:
    """Return all lines that a segment's summary may hold, ranked within their sections.

    `yield_now` is called all along.
    """
    blocks = split_blocks(content)
    steps = read_steps(blocks)
    found = _read_lines(blocks, steps, yield_now)
    vocabulary = Vocabulary(found)
    yield_now(len(content))
    scores = [salience(one, vocabulary) if one.kind != "user" else 0 for one in found]
    yield_now(len(content))
    spoken = [(score, one) for score, one in zip(scores, found, strict=True) if one.kind in ("assistant", "thinks")]
    human = [one for one in found if one.kind == "user"]
    sections = empty_sections()
    sections[CONSTRAINTS] = find_constraints(block.body for block in blocks if block.kind == "user")
    sections[INTENT] = find_intent(human, {line.text for line in sections[CONSTRAINTS]})
    sections[ERRORS] = _error_lines(blocks, steps, [one for _, one in spoken])
    sections[STATE] = _state_lines(steps, spoken)
    sections[DONE] = find_actions(steps)
    told = "\n".join(line.text for section in sections for line in section)
    sections[FACTS] = find_names(found)
    worths = [worth(score, one) for score, one in zip(scores, found, strict=True)]
    for one, line in choose_lines(found, worths, vocabulary):
        if without_count(line.text) not in told:
            sections[DECISIONS if is_choice(one) else FACTS].append(line)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def _read_lines(blocks: Sequence[Block], steps: Sequence[Step], yield_now: YieldNow) -> list[Candidate]:
    """Return the sentences and lines of all blocks that say something, in order."""
    calls = {step.at: step for step in steps}
    answers = {step.answered: step for step in steps}
    newest = {block.kind: at for at, block in enumerate(blocks)}
    found: list[Candidate] = []
    for at, block in enumerate(blocks):
        yield_now(len(block.body))
        if block.kind == "call":  # without path and command, which the section of actions shows
            step = calls[at]
            items = [(key, value) for key, value in step.items if value not in (step.path, step.command)]
            values = "\n".join(value if len(value) > 60 else f"{key}={value}" for key, value in items)
            found += find_in_lines(values if step.items else step.body, "arguments", at)
        elif block.kind in ("result", "failed"):
            answer = answers.get(at)
            source = base_name(answer.path) if answer and answer.path and answer.looks else ""
            found += find_in_lines(cleaned(block.body), block.kind, at, source)
        else:
            prose, code = split_prose(cleaned(block.body))
            kind = block.kind if block.kind in PROSE else "other"
            closing = at + 1 == len(blocks) or blocks[at + 1].kind == "user"
            for number, text in enumerate(prose):
                ends = number == 0, number == len(prose) - 1
                found.append(sentence(text, at, kind, Place(*ends, len(prose) > 6, closing, newest[block.kind] == at)))
            for part in code:
                found += find_in_lines(part, "code", at)
    return found


def _error_lines(blocks: Sequence[Block], steps: Sequence[Step], agent: Sequence[Candidate]) -> list[Line]:
    """Return each error once, with its fix if the agent reports one, or the note that the same call passed later."""
    went_well = {
        (step.tool, step.command, step.path): at
        for at, step in enumerate(steps)
        if step.answered >= 0 and not step.error
    }
    lines: dict[str, Line] = {}
    for at, step in [(at, step) for at, step in enumerate(steps) if step.error][-16:]:
        fix = find_fix(agent, frozenset(words_of(step.error)), step.answered)
        later = went_well.get((step.tool, step.command, step.path), -1) > at
        text = f"{render_call(step, 70)}: {step.error}"
        text += f" → {clip(fix, 160)}" if fix else " → passed later" if later else ""
        lines.pop(step.error, None)
        lines[step.error] = Line(text, (3 if step.looks else 6) + (0 if later else 3))
    pasted = (first_error_line(block.body, False) for block in blocks if block.kind == "user")
    return [*lines.values(), *(Line(f"user: {error}", 5) for error in [*dict.fromkeys(filter(None, pasted))][-4:])]


_TODO = re.compile(r"\{[^{}]{1,600}\}")

_TODO_TEXT = ("content", "step", "title", "task", "text", "description")

_DONE_WORDS = frozenset({"completed", "complete", "done", "cancelled", "canceled", "closed"})


def _state_lines(steps: Sequence[Step], spoken: Sequence[tuple[int, Candidate]]) -> list[Line]:
    """Return the tasks that are open, the last sentence and the two best of the newest message, and a call without
    result."""
    newest = [(score, at) for at, (score, one) in enumerate(spoken) if one.block == spoken[-1][1].block]
    best = sorted({at for _, at in sorted(newest)[-2:]} | {len(spoken) - 1}) if spoken else []
    texts = dict.fromkeys(shown(spoken[at][1].text) for at in best)
    lines = [Line(text, 7 + place) for place, text in enumerate(texts)]
    plans = (_todo_lines(step.body) for step in reversed(steps) if '"status"' in step.body)
    lines = [*next(filter(None, plans), ()), *lines]
    if steps and steps[-1].answered < 0:
        lines.append(Line(f"called, no result yet: {render_call(steps[-1])}", 9))
    return lines


def _todo_lines(body: str) -> list[Line]:
    """Return the unfinished tasks of a to-do list: `in progress` and `to do`."""
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


_FAILURES = ("Traceback (most", "\nFAILED", "\n--- FAIL", "rror: ", "xit code ", "fatal: ", "panic: ", "ERROR")

_PATH = re.compile(r'path":\s?"([^"\\\n]{1,300})"')

_END = 1_000  # characters of a block that are read


def skim_sections(content: str) -> Sections:
    """Return the few lines that plain searches find."""
    blocks = split_blocks(content)
    sections = empty_sections()
    human = [block.body for block in blocks if block.kind == "user" and block.body]
    sections[CONSTRAINTS] = find_constraints(human)
    if human:
        known = {line.text for line in sections[CONSTRAINTS]}
        sections[INTENT] = find_intent(_last_sentences(human[-1]), known)[-1:]
    failures: dict[str, Line] = {}
    changed: dict[str, None] = {}
    looked: dict[str, None] = {}
    for block in blocks:
        failed = block.kind == "failed"
        if failed or (block.kind == "result" and not looks_only(block.tool) and _names_failure(block.body)):
            if line := first_error_line(block.body, failed):
                failures.pop(line, None)
                failures[line] = Line(f"{block.tool}: {line}", 2 if failed else 1)
        elif block.kind == "call" and 'path":' in block.body:
            names = changed if verb_of(block.tool) else looked
            names.update((found[1], None) for found in islice(_PATH.finditer(block.body), 8))
    sections[ERRORS] = list(failures.values())[-6:]
    sections[DONE] += [Line(f"changed {list_whole(changed, 240)}", 2)] if changed else []
    sections[DONE] += [Line(f"looked at {list_whole(looked, 160)}", 1)] if looked else []
    spoken = [block.body for block in blocks if block.kind in ("assistant", "thinks")]
    if spoken and (told := [one for one in _last_sentences(spoken[-1]) if len(one.words) > 3]):
        sections[STATE] = [Line(shown(told[-1].text))]
    if not any(sections):  # the first words of the newest block that has some
        bodies = (clip(shown(cleaned(block.body[:2000])), 200) for block in reversed(blocks))
        words = next((words for words in bodies if len(words) > 1), "")
        sections[FACTS] = [Line(words)] if words else nothing_readable(content)
    return sections


def _names_failure(result: str) -> bool:
    return any(mark in result for mark in _FAILURES)


def _last_sentences(body: str) -> list[Candidate]:
    """Return the sentences of the last lines of a body, or of the whole words near its end."""
    if len(body) > _END:
        low = len(body) - _END
        at = body.find("\n", low)
        body = body[at if at >= 0 else max(body.find(" ", low), low) :]
    return [sentence(text, 0) for text in split_prose(cleaned(body))[0]]

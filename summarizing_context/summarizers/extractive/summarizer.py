"""The extractive summary of a segment, thorough or quick, and of neighbouring summaries.

The blocks of a segment are read in one pass, then each section takes its lines. The quick one, for hundreds of segments
that must be shown at once, weighs no facts. Sentences are quoted verbatim; calls and their outcomes are short lines
with exact paths, commands and files. `lines` judges what a line says and how much it is worth, and selects what fits.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from summarizing_context.concurrency import WorkerThread, YieldNow, never_yield
from summarizing_context.extraction import facts as calls
from summarizing_context.messages.text import GONE, cleaned, clip, shown, split_prose, words_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import CallStatistics, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive import lines
from summarizing_context.summarizers.extractive.lines import Block, Line, Sections, fit, is_rendered, read_sections


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
        return fit(_read_summaries(content, max_tokens, yield_now), max_tokens)
    return fit(_read_segment(content, yield_now), max_tokens)


def skim(content: str, max_tokens: int) -> str:
    """Return a small summary without facts and decisions, for many segments at once."""
    return fit(_read_segment(content, is_quick=True), max_tokens) if content else ""


def brief_of(text: str, max_tokens: int = 60) -> str:
    """Return one to three lines with the most important of a summary, or of a short segment that is its own summary.

    A line for each of the most important sections that fit, at most `max_tokens`.
    """
    if not text:
        return ""
    found = read_sections(skim(text, 4 * max_tokens) if is_rendered(text) else text)
    return re.sub(r"(?m)^## (.*)\n- ", r"\1: ", fit(found, max_tokens)).replace("\n- ", " · ")


def cut_to(summary: str, max_tokens: int) -> str:
    """Return a summary without the last lines of those sections that take most for their share; a brief where none is
    left."""
    by_heading = {f"## {name}": share for name, share in zip(lines.NAMES, lines.SHARES, strict=True)}
    kept = [part.rstrip("\n").split("\n") for part in re.split(r"^(?=## )", summary, flags=re.MULTILINE)]
    shares = [by_heading.get(part[0], min(lines.SHARES)) for part in kept]
    while any(len(part) > 1 for part in kept):
        text = "\n\n".join("\n".join(part) for part in kept if len(part) > 1)
        if estimate_text(text) <= max_tokens:
            return text
        costs = [sum(estimate_text(f"{line}\n") for line in part[1:]) for part in kept]
        kept[max(range(len(kept)), key=lambda at: costs[at] / shares[at])].pop()
    return brief_of(summary, max_tokens=max_tokens)


def _read_segment(content: str, yield_now: YieldNow = never_yield, *, is_quick: bool = False) -> Sections:
    """Return all lines that a segment's summary may hold, ranked within their sections."""
    blocks = lines.split_blocks(content)
    steps = read_steps(blocks)
    sections: Sections = [[] for _ in lines.NAMES]

    # what people say: rules, in a chat wishes too; of all else the beginnings of messages rank before what follows
    # them, and the first and the newest message before the others
    typed = [(block.body, split_prose(cleaned(block.body))[0]) for block in blocks if block.kind == "user"]
    rules = [rule for body, sentences in typed for rule in lines.rules_said(body, sentences, wishes=not steps)]
    known = {rule.text for rule in rules}
    asked: list[Line] = []
    for number, (_, sentences) in enumerate(typed):
        early = 2 if number in (0, len(typed) - 1) else 0
        quotes = [f'"{shown(text)}"' for text in sentences if len(words_of(text)) > 1]
        for late, quote in enumerate([quote for quote in quotes if quote not in known][:8]):
            asked.append(Line(quote, number + (8 - max(late - early, 0)) * len(typed)))
    asked = _last_of_each(asked)
    sections[lines.INTENT] = [asked[at] for at in lines.newest_of_each_pattern([line.text for line in asked])]
    sections[lines.CONSTRAINTS] = _last_of_each(rules)

    # the sentences and lines of all blocks that say something, in order
    called, answers = {step.at: step for step in steps}, {step.answered: step for step in steps}
    erring, found = [step for step in steps if step.error][-16:], list[lines.Candidate]()
    for at, block in enumerate(blocks):
        yield_now(len(block.body))
        if block.kind in ("result", "failed"):
            answer = answers.get(at)
            source = answer.file if answer and answer.looks else ""
            guide = (answer.path or answer.command).rpartition(" ")[2] if answer and answer.looks else ""
            stated = lines.rules_of_guide(guide, block.body)
            sections[lines.FACTS] += [Line(f"{guide.rpartition('/')[2]}: {text}", lines.GUIDE_RANK) for text in stated]
            found += [] if is_quick else lines.find_in_lines(cleaned(block.body), block.kind, at, source)
        elif block.kind == "call" and not is_quick:  # without path and command, which the section of actions shows
            step = called[at]
            items = [(key, value) for key, value in step.items if value not in (step.path, step.command)]
            said = "\n".join(value if len(value) > 60 else f"{key}={value}" for key, value in items)
            found += lines.find_in_lines(said if step.items else step.body, "arguments", at)
        elif not is_quick:
            prose, code = split_prose(cleaned(block.body))
            found += lines.find_in_lines("\n".join(prose), block.kind if block.kind in lines.PROSE else "other", at)
            found += [one for part in code for one in lines.find_in_lines(part, "code", at)]
    for at in reversed(range(len(blocks) if is_quick else 0)):  # what the agent said last, and soon after an error
        is_soon = any(step.answered < at <= step.answered + 12 for step in erring)
        if (kind := blocks[at].kind) in ("assistant", "thinks") and (is_soon or not found):
            found[:0] = lines.find_in_lines("\n".join(split_prose(cleaned(blocks[at].body))[0]), kind, at)
    spoken = [one for one in found if one.kind in ("assistant", "thinks")]
    vocabulary = lines.Vocabulary(found)
    yield_now(len(content))
    sections[lines.DONE] = find_actions(steps)

    # each error once, with its fix if the agent reports one, or the note that the same call passed later
    passed = {(step.tool, step.command, step.path): step.at for step in steps if step.answered >= 0 and not step.error}
    errors: dict[str, Line] = {}
    for step in erring:
        # the fix: the first sentence soon after that reports one; one that shares a word with the error wins
        soon = [one for one in spoken if step.answered < one.block <= step.answered + 12][:60]
        fixes = [one for one in soon if calls.is_informative(one.text) and calls.says("fix", one.text)]
        related = [one for one in fixes if not set(words_of(step.error)).isdisjoint(one.words)]
        later = passed.get((step.tool, step.command, step.path), -1) > step.at
        fix = f" → {clip(shown((related or fixes)[0].text), 160)}" if fixes else " → passed later" if later else ""
        errors.pop(step.error, None)
        rank = (3 if step.looks else 6) + (0 if later else 3)
        errors[step.error] = Line(f"{step.render(70)}: {step.error}{fix}", rank)
    sections[lines.ERRORS] = list(errors.values())

    # the state: the open tasks of the newest list, the newest message's best and last words, a call without result
    keys = ("todos", "plan", "tasks", "items", "steps")
    plans = (calls.plan_in_call(step.body, keys, ()) for step in reversed(steps) if '"status"' in step.body)
    tasks = [task for task in next(filter(None, plans), ()) if task.is_open]
    doing = [Line(f"in progress: {clip(shown(task.text), 120)}", 12) for task in tasks if task.mark == "[>]"]
    waiting = "; ".join(clip(shown(task.text), 120) for task in tasks if task.mark != "[>]")
    newest = [one for one in spoken if one.block == spoken[-1].block]
    best = sorted(newest[:-1], key=lambda one: lines.worth(one, vocabulary))[-2:] if not is_quick else []
    state = [shown(one.text) for one in newest if one in best or one is newest[-1]]
    sections[lines.STATE] = [*doing[:3], *([Line(clip(f"to do: {waiting}", 300), 11)] if waiting else [])]
    sections[lines.STATE] += [Line(text, 7 + place) for place, text in enumerate(state)]
    if steps and steps[-1].answered < 0:
        sections[lines.STATE].append(Line(f"called, no result yet: {steps[-1].render()}", 9))

    # the facts and choices that are worth it, without what is said already
    known = {line.text for section in sections for line in section}
    found = [
        one for one in found if not is_quick and one.kind != "user" and (lines.says_something(one) or _is_choice(one))
    ]
    yield_now(len(content))
    for one, line in lines.choose_lines(found, [lines.worth(one, vocabulary) for one in found], vocabulary):
        if line.text not in known:
            sections[lines.DECISIONS if _is_choice(one) else lines.FACTS].append(line)
    if not any(sections):  # the first words of the newest block that has some
        bodies = (clip(shown(cleaned(block.body[:2000])), 200) for block in reversed(blocks))
        words = next((words for words in bodies if len(words) > 1), "")
        sections[lines.FACTS] = [Line(words) if words else lines.nothing_readable(content)]
    return sections


def _is_choice(one: lines.Candidate) -> bool:
    return one.kind in ("assistant", "thinks") and ("because" in one.text or calls.says("decision", one.text))


def _last_of_each(bullets: Sequence[Line]) -> list[Line]:
    """Return lines of the same text once, where the last one stands."""
    return list({line.text: line for line in reversed(bullets)}.values())[::-1]


def _read_summaries(content: str, max_tokens: int, yield_now: YieldNow) -> Sections:
    """Return all lines that a merge of neighbouring summaries may hold, section by section, oldest first.

    Constraints stay before everything else; of the states the latest wins; what repeats is said once. A segment so
    short that its own text stands for it is summarized first.
    """
    texts = lines.split_children(content)
    children: list[Sections] = []
    for text in texts:
        yield_now(len(text))
        if is_rendered(text):
            text = fit(_read_segment(text, yield_now), max(max_tokens // len(texts), 40))
        children.append(read_sections(text))

    def merged(section: int) -> list[Line]:
        return [line for child in children for line in child[section]]

    def thin(bullets: Sequence[Line]) -> list[Line]:
        """Return each line once, ranked by worth and news. A line that a child kept has some worth already."""
        found = lines.find_in_lines("\n".join(line.text for line in _last_of_each(bullets)), "told")
        scores = [lines.worth(one, vocabulary, 1_000) * (4 * len(found) + at) for at, one in enumerate(found)]
        return [line for _, line in lines.choose_lines(found, scores, vocabulary, others=120)]

    sections: Sections = [[] for _ in lines.NAMES]
    asked = list(dict.fromkeys(line.text for line in merged(lines.INTENT)))  # the first request, then the newest
    sections[lines.INTENT] = [Line(asked[at], at or len(asked)) for at in lines.newest_of_each_pattern(asked)]
    sections[lines.CONSTRAINTS] = [
        Line(line.text, lines.STRICT_RANK) for line in _last_of_each(merged(lines.CONSTRAINTS))
    ]
    errors = _last_of_each(merged(lines.ERRORS))  # the newest are kept longest, and longer those without a known fix
    sections[lines.ERRORS] = [Line(error.text, 0 if " → " in error.text else 1) for error in errors]
    stated = [child[lines.STATE] for child in children if child[lines.STATE]]
    sections[lines.STATE] = stated.pop() if stated else []
    passing = ("in progress: ", "to do: ", "called, no result yet: ")  # a state that a later one replaces
    facts = [*merged(lines.FACTS), *(line for state in stated for line in state if not line.text.startswith(passing))]
    vocabulary = lines.Vocabulary(lines.find_in_lines("\n".join(asked), "user"))
    sections[lines.DONE] = add_up(merged(lines.DONE))
    sections[lines.DECISIONS] = thin(merged(lines.DECISIONS))
    guides = _last_of_each([Line(fact.text, lines.GUIDE_RANK) for fact in facts if lines.is_of_guide(fact.text)])
    sections[lines.FACTS] = [*guides, *thin([fact for fact in facts if not lines.is_of_guide(fact.text)])]
    if not any(sections):
        sections[lines.FACTS] = [lines.nothing_readable(content)]
    return sections


class ExtractiveSummarizer:
    """Summarizes one job at a time in a worker thread, which it closes: a given one, or one of its own.

    Nothing limits it: it is always ready, and makes no call.
    """

    recipe: str | None = "extractive/v11"  # another name whenever the same content would give other bytes
    model: str | None = None

    def __init__(self, *, thread: WorkerThread | None = None) -> None:
        self._thread = WorkerThread("extractive") if thread is None else thread

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job. When cancelled, the thread only finishes the segment it is reading."""
        read = partial(summarize_extractively, job.content, kind=job.kind, max_tokens=job.max_tokens)
        text = await self._thread.run(partial(read, yield_now=self._thread.yield_now))
        return SummaryReply(text, input_tokens=0, output_tokens=0)

    def ready_in(self) -> float:
        return 0.0

    def statistics(self) -> CallStatistics:
        return CallStatistics()

    async def close(self) -> None:
        """Drop the jobs that wait, let the running one finish, and end the thread. May be called twice."""
        await self._thread.close()


# What was done.

_PATH_KEYS = ("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name")


class Step(NamedTuple):
    """One call and what came of it."""

    at: int  # number of the call's block
    tool: str
    command: str  # "" where the tool runs none
    path: str  # "" where it names none
    body: str  # the arguments as written
    items: list[tuple[str, str]]  # the arguments as names and texts
    looks: bool  # whether it only looks at something
    answered: int = -1  # number of the result's block; -1: not in this content
    result: str = ""
    failed: bool = False
    error: str = ""  # the line that names what went wrong

    @property
    def file(self) -> str:
        return shown(self.path.rstrip("/").rpartition("/")[2])

    @property
    def works_on_a_file(self) -> bool:
        """Whether the path says what was done, and no command line does."""
        return bool(self.path) and " " not in self.command

    def render(self, limit: int = 140) -> str:
        """Return the call in about `limit` characters; a path is named by its last part rather than cut."""
        if self.works_on_a_file:
            return f"{self.command or self.tool} {shown(self.path) if len(self.path) < limit else self.file}"
        if self.command:
            return f"`{clip(shown(calls.bare_command(self.command)[0]), limit)}`"
        if patched := calls.patched_files(self.items):
            return f"{self.tool} {shown(patched[0][0])}"
        items = [f"{key}={clip(shown(value), 40)}" for key, value in self.items if value]
        return f"{self.tool}({clip(', '.join(items[:12]), limit)})"


def read_steps(blocks: Sequence[Block]) -> list[Step]:
    """Return the calls in order, each with the first result of its tool that follows and is not yet taken."""
    waiting: dict[str, deque[int]] = {}
    steps: list[Step] = []
    for at, (kind, body, tool) in enumerate(blocks):
        if kind == "call":
            waiting.setdefault(tool, deque()).append(len(steps))
            items = calls.read_arguments(body, numbers=True)
            first = dict(reversed(items))
            path = next((first[key] for key in _PATH_KEYS if key in first), "")
            runs_by = next((key for key in calls.COMMAND_KEYS if key in first), None)
            command = " ".join(value for name, value in items if name == runs_by)
            runs = bool(command) and (not path or " " in command)
            looks = calls.only_looks(calls.bare_command(command)[0]) if runs else calls.looks_only(command or tool)
            steps.append(Step(at, tool, command, path, body, items, looks))
        elif kind in ("result", "failed") and waiting.get(tool):
            index = waiting[tool].popleft()
            step, result, failed = steps[index], cleaned(body), kind == "failed"
            read = result
            if not step.command and not failed:  # often prose about errors; those that failed say so at once or at last
                read = f"{result[:300]}\n{result[300:][-600:]}"
            error = "" if step.looks and not failed else calls.first_error_line(read, failed)
            steps[index] = step._replace(answered=at, result=result, failed=failed, error=error)
    return steps


_LOOKED, _CALLED = "looked at", "called with"
_LISTED = re.compile(
    rf"({_LOOKED}|{_CALLED}|edited|updated|modified|wrote|created|saved|moved|renamed|undid|deleted|removed|dropped|"
    r"closed|archived) ([^\n]+)\Z"
)


def find_actions(steps: Sequence[Step]) -> list[Line]:
    """Return what the steps changed or checked, oldest first; ids among the arguments are listed."""
    deeds: list[Line] = []
    for step in steps:
        deeds += [Line(f"{_CALLED} {value}") for _, value in step.items if len(value) <= 40 and calls.is_id(value)]
        if step.looks or re.search(r"(?i)todo|plan\b|_plan|think", step.tool):
            deeds += [Line(f"{_LOOKED} {shown(step.path)}")] if step.path else []
            continue
        if step.answered < 0:
            continue

        # the outcome: as a test run or a build counts it, by the exit status, or in its own words
        end, status = step.result[-3000:], calls.exit_code(step.result)
        tallies = [found.start() for found in calls.PATTERNS["tally"].finditer(end)]
        if step.failed or step.error:
            outcome, rank = "failed", 3
        elif tallies:
            outcome, rank = clip(shown(calls.line_at(end, tallies[-1])), 100), 12
        else:
            rank = 14 if calls.PATTERNS["commits"].search(step.command) else 8
            last = step.result.rstrip()
            line = calls.line_at(last, len(last) - 1) if step.command else step.result.strip()[:300].split("\n")[0]
            outcome = f"exit code {status}" if status.strip("0") else "ok" if status else clip(shown(line), 80)

        # the deed
        verb = calls.verb_of(step.command or step.tool)
        changed = calls.patched_files(step.items) or ([(step.path, verb)] if step.works_on_a_file and verb else [])
        failed = " → failed" if step.failed else ""
        deeds += [Line(f"{how} {shown(path)}{failed}", 10) for path, how in changed]
        if not changed and not step.works_on_a_file:
            ran = f"ran {step.render()}" if step.command else step.render(80)
            deeds.append(Line(f"{ran} → {outcome}" if outcome else ran, rank))
    return add_up(deeds)


def add_up(deeds: Iterable[Line]) -> list[Line]:
    """Return what was done, oldest first: a line for each verb with the newest names, and what has an outcome or no
    known verb by itself, with how often; done again it stands at its last place, with its last outcome."""
    verbs: dict[str, str] = {}  # of each name, the newest last; what was changed stays changed when looked at later
    kept: dict[str, Line] = {}
    times: Counter[str] = Counter()
    for text, rank in deeds:
        if " → " not in text and (listed := _LISTED.match(text)):
            for name in map(str.strip, listed[2].split(", ")):
                before = verbs.pop(name, listed[1])
                verbs[name] = before if listed[1] in (_LOOKED, _CALLED) else listed[1]
        else:
            action, arrow, outcome = text.partition(" → ")
            counted = re.search(r" \((\d{1,9}) times\)\Z", action)
            action = action[: counted.start()] if counted else action
            times[action] += int(counted[1]) if counted else 1
            kept.pop(action, None)
            kept[action] = Line(arrow + outcome, rank)
    verbs.pop(GONE, None)
    lines: list[Line] = []
    for verb in dict.fromkeys(verbs.values()):
        newest = [name for name, how in reversed(verbs.items()) if how == verb]
        fitting = sum(length <= 400 for length in accumulate(map(len, newest))) or 1
        names = [*newest[:fitting], *([GONE] if fitting < len(newest) else [])]
        lines.append(Line(f"{verb} {', '.join(reversed(names))}", 6 if verb in (_LOOKED, _CALLED) else 15))
    for action, (outcome, rank) in kept.items():
        lines.append(Line((f"{action} ({times[action]} times)" if times[action] > 1 else action) + outcome, rank))
    return lines

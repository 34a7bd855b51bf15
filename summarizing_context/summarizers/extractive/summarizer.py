"""The extractive summary of a segment, thorough or quick by plain searches, and of neighbouring summaries; and all
extractive passes of a session.

The thorough one reads the blocks of a segment in one pass, then each section takes its lines. The quick one is for
hundreds of segments that must be shown at once. Sentences are quoted verbatim; the word lists in `statements.toml` tell
a choice and a fix. `lines` says how much a line is worth, `sections` selects what fits.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from itertools import islice
from typing import NamedTuple

from summarizing_context.concurrency import WorkerThread, YieldNow, never_yield
from summarizing_context.errors import SummarizerError
from summarizing_context.extraction.rules import cue_rules
from summarizing_context.extraction.tool_calls import first_error_line, looks_only, verb_of
from summarizing_context.messages.text import cleaned, clip, list_whole, shown, split_prose, words_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import CallStatistics, SummaryJob, SummaryReply
from summarizing_context.summarizers.extractive.actions import (
    Listings,
    add_up,
    base_name,
    find_actions,
    read_steps,
    render_call,
)
from summarizing_context.summarizers.extractive.lines import (
    PROSE,
    Candidate,
    Vocabulary,
    choose_lines,
    find_in_lines,
    key_lines,
    newest_of_each_pattern,
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
from summarizing_context.summarizers.extractive.topics import excerpt_about, lines_about

RECIPE = "extractive/v9"  # another name whenever the same content would give other bytes
_LEAF_SHARES = (18, 30, 14, 12, 14, 10, 40)  # percent of the room for each section
_ROLLUP_SHARES = (14, 30, 18, 14, 14, 6, 34)
_SKIM_SHARES = (20, 60, 25, 0, 25, 20, 15)


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
    """Return a small summary by plain searches over the whole content, for many segments at once."""
    return fit(skim_sections(content), _SKIM_SHARES, max_tokens) if content else ""


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
    left = max_tokens
    for section in PRIORITY:
        if len(lines) == 3 or left < 6:
            break
        line = f"{NAMES[section]}:"
        for bullet in newest[section]:  # a bullet that only leads to something, with a colon, takes the next one along
            is_open = line.endswith(":")
            cost = estimate_text(f"{line} {bullet}\n" if is_open else f" · {bullet}")
            if cost <= left:
                line += f" {bullet}" if is_open else f" · {bullet}"
                left -= cost
        lines += [] if line.endswith(":") else [line]
    while lines and estimate_text("\n".join(lines)) > max_tokens:
        lines.pop()
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


_DEFINING = frozenset(b"def class func function fn interface struct enum trait type".split())
_DEFINITION = re.compile(
    r"(?:^|→|\t|:) {0,8}(?:(?:export|default|async|public|private|protected|static|abstract|final|pub) ){0,4}"
    r"(?:def|class|func|function|fn|interface|struct|enum|trait|type) (?:\([^()\n]{1,60}\) )?([A-Za-z_$][\w$]{1,80})"
)


def leaf_sections(content: str, yield_now: YieldNow = never_yield) -> Sections:
    """Return all lines that a segment's summary may hold, ranked within their sections.

    `yield_now` is called all along.
    """
    blocks = split_blocks(content)
    steps = read_steps(blocks)

    # the sentences and lines of all blocks that say something, in order
    calls, answers = {step.at: step for step in steps}, {step.answered: step for step in steps}
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
                places = (number == 0, number == len(prose) - 1, len(prose) > 6, closing, newest[block.kind] == at)
                found.append(sentence(text, at, kind, places))
            for part in code:
                found += find_in_lines(part, "code", at)
    vocabulary = Vocabulary(found)
    yield_now(len(content))
    scores = [salience(one, vocabulary) if one.kind != "user" else 0 for one in found]
    yield_now(len(content))
    spoken = [(score, one) for score, one in zip(scores, found, strict=True) if one.kind in ("assistant", "thinks")]
    sections: Sections = [[] for _ in NAMES]
    sections[CONSTRAINTS] = _constraints(block.body for block in blocks if block.kind == "user")
    sections[INTENT] = _intent((one for one in found if one.kind == "user"), sections[CONSTRAINTS])
    sections[DONE] = find_actions(steps)

    # each error once, with its fix if the agent reports one, or the note that the same call passed later
    went_well = {
        (step.tool, step.command, step.path): at
        for at, step in enumerate(steps)
        if step.answered >= 0 and not step.error
    }
    errors: dict[str, Line] = {}
    for at, step in [(at, step) for at, step in enumerate(steps) if step.error][-16:]:
        # the fix: the first sentence soon after that reports one; one that shares a word with the error wins
        soon = [one for _, one in spoken if step.answered < one.block <= step.answered + 12][:60]
        fixes = [one for one in soon if _has_cue(one, "fix") and _is_informative(one)]
        related = [one for one in fixes if not set(words_of(step.error)).isdisjoint(one.words)]
        later = went_well.get((step.tool, step.command, step.path), -1) > at
        text = f"{render_call(step, 70)}: {step.error}"
        if fixes:
            text += f" → {clip(shown((related or fixes)[0].text), 160)}"
        elif later:
            text += " → passed later"
        errors.pop(step.error, None)
        errors[step.error] = Line(text, (3 if step.looks else 6) + (0 if later else 3))
    pasted = dict.fromkeys(first_error_line(block.body, False) for block in blocks if block.kind == "user")
    sections[ERRORS] = [*errors.values(), *(Line(f"user: {error}", 5) for error in list(filter(None, pasted))[-4:])]

    # the state: the open tasks of the newest list, the last sentence and the two best of the newest message, and a call
    # without result
    lists = (_open_tasks(step.body) for step in reversed(steps) if '"status"' in step.body)
    sections[STATE] += next(filter(None, lists), [])
    if spoken:
        last = [(score, at) for at, (score, one) in enumerate(spoken) if one.block == spoken[-1][1].block]
        best = sorted({at for _, at in sorted(last)[-2:]} | {len(spoken) - 1})
        texts = dict.fromkeys(shown(spoken[at][1].text) for at in best)
        sections[STATE] += [Line(text, 7 + place) for place, text in enumerate(texts)]
    if steps and steps[-1].answered < 0:
        sections[STATE].append(Line(f"called, no result yet: {render_call(steps[-1])}", 9))
    told = "\n".join(line.text for section in sections for line in section)

    # what the newest three files that were read define, a line for each file; then what else is worth it
    names: dict[str, dict[str, None]] = {}
    for one in found:
        if one.source and not _DEFINING.isdisjoint(one.words) and (defined := _DEFINITION.search(one.text)):
            names.setdefault(one.source, {})[defined[1]] = None
    sections[FACTS] = [Line(f"{source} defines {list_whole(names[source], 160)}", 30) for source in list(names)[-3:]]
    worths = [worth(score, one) for score, one in zip(scores, found, strict=True)]
    for one, line in choose_lines(found, worths, vocabulary):
        if without_count(line.text) not in told:
            choice = one.kind in ("assistant", "thinks") and (_has_cue(one, "decision") or _has_cue(one, "reason"))
            sections[DECISIONS if choice else FACTS].append(line)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def _constraints(rows: Iterable[str]) -> list[Line]:
    """Return the standing rules of humans, quoted, oldest first. Of equal rules the last one counts."""
    lines: dict[str, Line] = {}
    for row in rows:
        for rule in cue_rules([row]):
            quote = f'"{rule.quote}"'
            lines.pop(quote, None)
            lines[quote] = Line(quote, STRICT_RANK if rule.strength == "must" else STRICT_RANK - 2)
    return list(lines.values())


def _intent(human: Iterable[Candidate], constraints: Iterable[Line]) -> list[Line]:
    """Return what humans said, quoted, oldest first, at most eight sentences a message; of requests that differ in
    their numbers alone the newest two.

    The beginnings of all messages rank before what follows them, the first and the newest message before the others.
    Sentences among the constraints are left out.
    """
    known = {line.text for line in constraints}
    by_block: dict[int, list[str]] = {}
    for one in human:
        if len(one.words) > 1 and (quote := f'"{shown(one.text)}"') not in known:
            by_block.setdefault(one.block, []).append(quote)
    lines: dict[str, Line] = {}
    for at, quotes in enumerate(by_block.values()):
        is_end = at in (0, len(by_block) - 1)
        for number, quote in enumerate(quotes[:8]):
            lines.pop(quote, None)
            late = max(number - (2 if is_end else 0), 0)
            lines[quote] = Line(quote, at + (8 - late) * len(by_block))
    return [list(lines.values())[at] for at in newest_of_each_pattern(list(lines))]


def _open_tasks(body: str) -> list[Line]:
    """Return the unfinished tasks of a to-do list: `in progress` and `to do`."""
    doing: list[str] = []
    waiting: list[str] = []
    for item in re.findall(r"\{[^{}]{1,600}\}", body[:20_000]):
        try:
            task = json.loads(item)
        except ValueError:
            continue
        keys = ("content", "step", "title", "task", "text", "description")
        text = next((str(task[key]) for key in keys if task.get(key)), "")
        status = str(task.get("status", ""))
        if text and status and status not in ("completed", "complete", "done", "cancelled", "canceled", "closed"):
            (doing if "progress" in status else waiting).append(clip(shown(text), 120))
    tasks = [Line(f"in progress: {text}", 12) for text in doing[:3]]
    return [*tasks, Line(clip("to do: " + "; ".join(waiting), 300), 11)] if waiting else tasks


def quotes(text: str) -> list[str]:
    """Return the decisions in one text that a human wrote, word for word."""
    said = map(sentence, split_prose(cleaned(text))[0])
    return list(dict.fromkeys(shown(one.text) for one in said if _has_cue(one, "decision") and _is_informative(one)))


def error_line(result: str, failed: bool) -> str:
    """Return the line of a result that names the error; "" if it names none. Of a huge one both ends are read."""
    ends = result if len(result) <= 2_000_000 else f"{result[:1_000_000]}\n{result[-1_000_000:]}"
    return first_error_line(cleaned(ends), failed)


def _is_informative(one: Candidate) -> bool:
    """Say whether a sentence is understood alone: more than three words, and no markup."""
    return len(one.words) > 3 and not (one.text.startswith(("|", "<", "{")) or one.text.endswith((":", ",")))


def _has_cue(one: Candidate, kind: str) -> bool:
    """Say whether any word or phrase of a list stands in a sentence."""
    text = b" %b " % b" ".join(one.words)
    return any(cue in text for cue in _cues()[kind])


@cache
def _cues() -> Mapping[str, list[bytes]]:
    """Return the words and the phrases of each list, with a space on either side."""
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "statements.toml").read_text("utf-8"))
    return {kind: [f" {cue} ".encode() for cue in cues] for kind, cues in lists.items()}


_FAILURES = ("Traceback (most", "\nFAILED", "\n--- FAIL", "rror: ", "xit code ", "fatal: ", "panic: ", "ERROR")


def skim_sections(content: str) -> Sections:
    """Return the few lines that plain searches find."""
    blocks = split_blocks(content)
    sections: Sections = [[] for _ in NAMES]
    human = [block.body for block in blocks if block.kind == "user" and block.body]
    sections[CONSTRAINTS] = _constraints(human)
    sections[INTENT] = _intent(_last_sentences(human), sections[CONSTRAINTS])[-1:]
    failures: dict[str, str] = {}
    changed: dict[str, None] = {}
    for kind, body, tool in blocks:
        failed = kind == "failed"
        if failed or (kind == "result" and not looks_only(tool) and any(mark in body for mark in _FAILURES)):
            if line := first_error_line(body, failed):
                failures.pop(line, None)
                failures[line] = tool
        elif kind == "call" and verb_of(tool):
            paths = re.finditer(r'path":\s?"([^"\\\n]{1,300})"', body)
            changed.update((found[1], None) for found in islice(paths, 8))
    sections[ERRORS] = [Line(f"{tool}: {line}") for line, tool in list(failures.items())[-6:]]
    sections[DONE] = [Line(f"changed {list_whole(changed, 240)}")] if changed else []
    spoken = _last_sentences([block.body for block in blocks if block.kind in ("assistant", "thinks")])
    sections[STATE] = [Line(shown(one.text)) for one in spoken if len(one.words) > 3][-1:]
    if not any(sections):  # the first words of the newest block that has some
        bodies = (clip(shown(cleaned(block.body[:2000])), 200) for block in reversed(blocks))
        words = next((words for words in bodies if len(words) > 1), "")
        sections[FACTS] = [Line(words)] if words else nothing_readable(content)
    return sections


def _last_sentences(bodies: Sequence[str]) -> list[Candidate]:
    """Return the sentences near the end of the last body, from the beginning of a line or of a word on."""
    body = bodies[-1] if bodies else ""
    if (low := len(body) - 1_000) > 0:
        at = body.find("\n", low)
        body = body[at if at >= 0 else max(body.find(" ", low), low) :]
    return [sentence(text) for text in split_prose(cleaned(body))[0]]


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

    def told(section: int) -> list[str]:
        return [line.text for child in children for line in child[section]]

    def as_candidates(texts: Iterable[str]) -> list[Candidate]:
        found = [sentence(text, 0, "assistant") for text in texts]
        return [one if not _SPOKEN.isdisjoint(one.words) else one._replace(kind="result") for one in found]

    def thin(texts: Iterable[str]) -> list[Line]:
        """Return each line once, ranked by worth, news and age: the oldest counts four parts where the newest counts
        five. A line that a child kept has some worth already."""
        found = as_candidates(_last_of_each(texts))
        scores = [worth(1_000 + salience(one, vocabulary), one) * (4 * len(found) + at) for at, one in enumerate(found)]
        return [line for _, line in choose_lines(found, scores, vocabulary, merges=True)]

    sections: Sections = [[] for _ in NAMES]
    asked = list(dict.fromkeys(told(INTENT)))  # the first request, then the newest
    sections[INTENT] = [Line(asked[at], at or len(asked)) for at in newest_of_each_pattern(asked)]
    sections[CONSTRAINTS] = [Line(text, STRICT_RANK) for text in _last_of_each(told(CONSTRAINTS))]
    texts = _last_of_each(told(ERRORS))  # the newest is kept longest, and longer than it those without a known fix
    sections[ERRORS] = [Line(text, at + (0 if " → " in text else len(texts))) for at, text in enumerate(texts)]
    stated = [child[STATE] for child in children if child[STATE]]
    sections[STATE] = [Line(line.text, at) for at, line in enumerate(stated[-1])] if stated else []
    listed = Listings()
    done = [text for text in told(DONE) if not listed.read(text)]
    decided, facts = told(DECISIONS), told(FACTS)
    passing = ("in progress: ", "to do: ", "called, no result yet: ")  # a state that a later one replaces
    facts += [line.text for lines in stated[:-1] for line in lines if not line.text.startswith(passing)]
    vocabulary = Vocabulary([*map(sentence, told(INTENT)), *as_candidates((*done, *decided, *facts))])
    sections[DONE] = [*listed.lines(), *thin(add_up(done))]
    sections[DECISIONS], sections[FACTS] = thin(decided), thin(facts)
    if not any(sections):
        sections[FACTS] = nothing_readable(content)
    return sections


def _last_of_each(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(reversed([*texts])))[::-1]


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


LinesAbout = Callable[[str, str, int], str]  # what a content says about a topic, in so many tokens


class Extracts(NamedTuple):
    """The extractive passes of a session, with every summarizer: thorough, quick, making a summary short, or as
    short as it has to be; about a topic, to be shown and to be read on. Sizes are estimated tokens."""

    thorough: Callable[..., str] = summarize_extractively
    skim: Callable[[str, int], str] = skim
    brief: Callable[[str, int], str] = brief_of
    cut: Callable[[str, int], str] = cut_to
    key_lines: Callable[[str, int], Sequence[str]] = key_lines  # of a text that a model does not get to read
    about: LinesAbout = lines_about
    excerpt: LinesAbout = excerpt_about

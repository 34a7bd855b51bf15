"""What was done, told as short lines with exact paths, commands and outcomes.

Pure. Reading is not doing: files that were only looked at share one line of low rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from summarizing_context.core.errors_seen import line_at
from summarizing_context.core.reading_words import PATCH_VERBS
from summarizing_context.core.sentences import clip, shown
from summarizing_context.core.verbs import verb_of
from summarizing_context.summarizers.listings import CALLED, LOOKED, Listings, ids_in
from summarizing_context.summarizers.parameters import SHIPPED, ExtractiveParameters, Ranks
from summarizing_context.summarizers.sections import Line
from summarizing_context.summarizers.steps import (
    OTHER_RANK,
    Step,
    is_look,
    patched_files,
    rank_command,
    tell_call,
)

_PLANS = re.compile(r"(?i)todo|plan\b|_plan|think")
_EXIT_CODE = re.compile(r"(?i)\b(?:exit(?:ed)?(?: with)?(?: code| status)?)[ :=]{1,3}(-?\d{1,5})\b")
_TALLY = re.compile(
    r"\b\d{1,7} (?:passed|failed|failures?|pass|fail|errors?|tests?|warnings?|problems?)\b|"
    r"(?:\A|(?<=\n))(?:ok|FAIL|PASS|OK)\b"
)
_TALLY_HINTS = (" pass", " fail", "FAIL", "\nok", "PASS", " error", "OK", " tests", " warning", " problem")
_TIMES = re.compile(r" \((\d{1,9}) times\)\Z")
_FAILED_RANK = 3


class Deed(NamedTuple):
    """One thing done, said in a line."""

    key: str
    outcome: str
    rank: int


def find_deeds(steps: Sequence[Step], by: ExtractiveParameters = SHIPPED) -> list[Line]:
    """What the steps changed or checked, oldest first; a deed done again stands once, with its last outcome."""
    deeds: dict[str, tuple[Deed, int]] = {}
    listed = Listings(by)
    for step in steps:
        for id in ids_in(value for _, value in step.items):
            listed.add(CALLED, id)
        if is_look(step) or _PLANS.search(step.tool):
            if step.path:
                listed.add(LOOKED, step.path)
            continue
        for deed in _deeds_of(step, by.ranks) if step.answered >= 0 else ():
            if not deed.outcome and listed.read(deed.key):
                continue
            times = deeds.pop(deed.key)[1] if deed.key in deeds else 0
            deeds[deed.key] = deed, times + 1
    return [*listed.lines(), *(Line(_tell(deed, times), deed.rank) for deed, times in deeds.values())]


def rank_deed(text: str) -> int:
    """How much a line about something done weighs, by its words alone: for summaries that are merged."""
    if text.endswith("→ failed"):
        return 2
    if text.startswith("ran "):
        return rank_command(text)
    return 5


def add_up(texts: Iterable[str]) -> list[str]:
    """Deeds, oldest first; one done again stands once, at its last place, with its last outcome and all its times."""
    kept: dict[str, tuple[int, str]] = {}
    for text in texts:
        deed, arrow, outcome = text.partition(" → ")
        times = _TIMES.search(deed)
        key = deed[: times.start()] if times else deed
        before = kept.pop(key, (0, ""))[0]
        kept[key] = before + (int(times[1]) if times else 1), arrow + outcome
    return [key + (f" ({times} times)" if times > 1 else "") + tail for key, (times, tail) in kept.items()]


def _deeds_of(step: Step, ranks: Ranks) -> list[Deed]:
    if patched := patched_files(step):
        return [_file_deed(PATCH_VERBS[verb], path.strip(), step, ranks) for verb, path in patched]
    if step.path and (not step.command or " " not in step.command):
        verb = verb_of(step.command or step.tool)
        return [_file_deed(verb, step.path, step, ranks)] if verb else []
    if step.command:
        return [_command_deed(step, ranks)]
    return [Deed(tell_call(step, 80), _outcome(step), ranks.file if verb_of(step.tool) else ranks.call)]


def _file_deed(verb: str, path: str, step: Step, ranks: Ranks) -> Deed:
    rank = min(_FAILED_RANK, ranks.file) if step.failed else ranks.file
    return Deed(f"{verb} {shown(path)}", "failed" if step.failed else "", rank)


def _command_deed(step: Step, ranks: Ranks) -> Deed:
    return Deed(f"ran {tell_call(step)}", _outcome(step), ranks.command * rank_command(step.command))


def _outcome(step: Step) -> str:
    if step.failed or step.error:
        return "failed"
    if tally := _tally(step.result):
        return clip(tally, 100)
    code = _EXIT_CODE.search(step.result, 0, 2000) if "xit" in step.result[:2000] else None
    if code and code[1] != "0":
        return shown(code[0])
    if step.command:
        return "ok" if code else _last_line(step) if rank_command(step.command) > OTHER_RANK else ""
    first = step.result.strip()[:300].split("\n")[0]
    return clip(shown(first), 70)


def _last_line(step: Step) -> str:
    end = step.result.rstrip()
    return clip(shown(line_at(end, len(end) - 1)), 80) if end else ""


def _tally(result: str) -> str:
    """The line of a test run's or build's result that gives the numbers."""
    end = result[-3000:]
    if not any(hint in end for hint in _TALLY_HINTS):
        return ""
    found = [tally.start() for tally in _TALLY.finditer(end)]
    line = shown(line_at(end, found[-1])) if found else ""
    return "ok" if line.startswith("ok ") else line


def _tell(deed: Deed, times: int) -> str:
    again = f" ({times} times)" if times > 1 else ""
    return f"{deed.key}{again}" + (f" → {deed.outcome}" if deed.outcome else "")

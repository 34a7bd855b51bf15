"""Digests of all views of a folder of transcripts: whether two states of the package show the same.

    python -m evals.performance.view_digests FOLDER --json digests.json
    python -m evals.performance.view_digests FOLDER --check digests.json

Each transcript is replayed at each budget through the public interface. A view is taken before each assistant message,
and three more at the end, the last two with a pin and a note about a topic. The background work is over before the log
goes on, so nothing depends on the machine's pace. A script plays the model (`scripted`). Rules, decisions and
extractive texts are left out; the ledger, pins, cuts, shrinking and the tail are all in the digests.

The file has a line for each transcript, named by a hash of its content. For each budget it holds the digest, the number
of views, the number of activations, and a trace. The trace has a letter for each view and section, with a count where
it stays: it tells a check where to look, and the digest alone decides. A check that finds a difference ends with exit
status 1. A file named `.gz` is compressed.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import anyio
from rich.progress import track

from evals.performance.scripted import ScriptedModel, without_rules
from summarizing_context import BudgetError, Settings, SummarizingContext, open_context
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.transcripts import find_transcripts, read_session

Row = list[Any]  # digest, views, activations, trace by section
Rows = dict[str, dict[str, Row]]  # by transcript and budget

BUDGETS = (8_000, 16_000, 64_000)
PATIENCE = 120.0  # seconds that background work may take
TOPIC = "the tests that failed"


async def replay(messages: Sequence[Message], budget: int) -> Row:
    """The row of one transcript at one budget."""
    settings = Settings(max_tokens=budget, idle_after=None)
    fold = Fold()
    async with open_context(settings, summarizer=ScriptedModel(), count_tokens=estimate_text) as context:
        for at, message in enumerate(messages):
            if at and message.get("role") == "assistant":
                await _look(context, budget, fold)
            await context.add_message(message)
            await _settle(context)
        await _look(context, budget, fold)
        await context.pin(len(messages) // 3)
        for _ in range(2):  # the second view shows what the model made of the note
            with suppress(BudgetError):  # then the view that follows is refused too
                await context.compact(focus=TOPIC)
            await _settle(context)
            await _look(context, budget, fold)
        return fold.row(context.statistics().activations)


async def _look(context: SummarizingContext, budget: int, fold: Fold) -> None:
    try:
        fold.add(await context.get_messages_for_request(token_budget=budget))
    except BudgetError:
        fold.add(None)


async def _settle(context: SummarizingContext) -> None:
    """Wait for the background work; a failure would make the views depend on time."""
    is_idle = await context.wait_idle(PATIENCE)
    if not is_idle or (error := context.statistics().last_error):
        raise RuntimeError(f"the background work failed: {error if is_idle else 'it did not end'}")


def record(paths: Sequence[Path], budgets: Sequence[int]) -> Rows:
    """The rows of transcript files."""
    rows: Rows = {}
    with without_rules():
        for path in track(paths, "transcripts", transient=True):
            messages = list(read_session(path).messages)
            name = hashlib.sha256(canonical(messages)).hexdigest()[:12]
            if name not in rows:
                rows[name] = {str(budget): anyio.run(partial(replay, messages, budget)) for budget in budgets}
    return rows


def differences(before: Rows, after: Rows, *, part: bool = False) -> Iterator[str]:
    """A line for each difference; where `after` is only a part of the transcripts, the others are not missed."""
    for name in sorted(after if part else before.keys() | after.keys()):
        for budget in sorted(after.get(name) or before[name], key=int):
            old, new = before.get(name, {}).get(budget), after.get(name, {}).get(budget)
            if old is None or new is None:
                yield f"{name} at {budget}: {'not recorded' if old is None else 'no such transcript'}"
            elif old[:3] != new[:3]:
                yield f"{name} at {budget}: {difference(old, new)}"


def summary(rows: Rows) -> Iterator[str]:
    """What was replayed."""
    yield f"{len(rows):,} transcripts"
    for budget in sorted({budget for row in rows.values() for budget in row}, key=int):
        views, activations = (sum(row[budget][at] for row in rows.values()) for at in (1, 2))
        yield f"at {int(budget):,} tokens {views:,} views, {activations:,} activations"


def write(path: Path, rows: Mapping[str, object]) -> None:
    """The rows as JSON, a line each."""
    lines = (f"{json.dumps(name)}: {json.dumps(rows[name], sort_keys=True)}" for name in sorted(rows))
    data = ("{\n" + ",\n".join(lines) + "\n}\n").encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def read(path: Path) -> Rows:
    """The rows of a file."""
    data = path.read_bytes()
    rows: Rows = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return rows


Message = dict[str, Any]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_HEADER = re.compile(r"<history>|\[\d+ earlier messages left out\]")
_TAG = re.compile(r"<(summary|ledger|standing_rules|memories)\b")


@dataclass
class Fold:
    """The views of one replay, folded into a digest."""

    views: int = 0
    letters: dict[str, list[str]] = field(default_factory=dict)  # by section, one for each view
    _digest: Any = field(default_factory=hashlib.sha256)

    def add(self, view: Sequence[Message] | None) -> None:
        """One more view; none where it was refused."""
        self._digest.update(canonical(view) + b"\n")
        for name, data in ({"refused": b""} if view is None else sections(view)).items():
            letters = self.letters.setdefault(name, [])
            letters += "-" * (self.views - len(letters))  # it was not there before
            letters.append(_LETTERS[hashlib.sha256(data).digest()[0] % len(_LETTERS)])
        self.views += 1

    def row(self, activations: int) -> Row:
        """What is written down."""
        trace = {name: _shortened(letters) for name, letters in self.letters.items()}
        return [self._digest.hexdigest()[:16], self.views, activations, trace]


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def sections(view: Sequence[Message]) -> dict[str, bytes]:
    """The bytes of a view by section, in the order of the sections."""
    found: dict[str, bytes] = {}
    place, headed = "system", any(map(_is_header, view))
    for message in view:
        if place == "system" and message.get("role") not in ("system", "developer"):
            place = "opening" if headed else "messages"
        if _is_header(message):
            for block in message["content"]:
                tag = _TAG.match(block["text"])
                _extend(found, tag[1] if tag else "header", block)
            place = "messages"
            continue
        tag = _TAG.match(message["content"]) if isinstance(message.get("content"), str) else None
        _extend(found, tag[1] if tag and place == "messages" else place, message)
    return found


def _extend(found: dict[str, bytes], name: str, value: object) -> None:
    found[name] = found.get(name, b"") + canonical(value)


def _is_header(message: Message) -> bool:
    content = message.get("content")
    first = content[0] if isinstance(content, list) and content else None
    return isinstance(first, dict) and _HEADER.match(str(first.get("text", ""))) is not None


def _shortened(letters: Sequence[str]) -> str:
    runs = [(letter, len(list(run))) for letter, run in groupby(letters)]
    return "".join(f"{letter}{times if times > 1 else ''}" for letter, times in runs)


def _lengthened(trace: str, views: int) -> str:
    return "".join(letter * int(times or 1) for letter, times in re.findall(r"(\D)(\d*)", trace)).ljust(views, "-")


def difference(old: Row, new: Row) -> str:
    """How two rows differ: the first view that does, and its sections."""
    counts = [
        f"{was} {what}, now {now}"
        for what, was, now in zip(("views", "activations"), old[1:3], new[1:3], strict=True)
        if was != now
    ]
    views = max(old[1], new[1])
    first: dict[str, int] = {}
    for name in sorted(old[3].keys() | new[3].keys()):
        was, now = (_lengthened(row[3].get(name, ""), views) for row in (old, new))
        if was != now:
            first[name] = next(at for at in range(views) if was[at] != now[at])
    if not first:
        return "; ".join([*counts, "the bytes differ, in sections unknown"])
    start = min(first.values())
    names = ", ".join(name for name, at in first.items() if at == start)
    later = ", ".join(f"{name} from {at + 1} on" for name, at in first.items() if at > start)
    return "; ".join([*counts, f"view {start + 1}: {names}", *([later] if later else [])])


def main() -> None:
    """Read the command line, replay, and write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--every", type=int, default=1, help="replay every so manieth file")
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--json", type=Path, help="write the digests here")
    parser.add_argument("--check", type=Path, help="compare with the digests of this file")
    given = parser.parse_args()
    rows = record(find_transcripts([given.folder])[:: given.every], given.budgets)
    print("; ".join(summary(rows)))
    if given.json is not None:
        write(given.json, rows)
    if given.check is not None:
        found = list(differences(read(given.check), rows, part=given.every > 1))
        for line in found:
            print(line)
        print(f"{len(found):,} digests differ" if found else "all digests are the same")
        raise SystemExit(bool(found))


if __name__ == "__main__":
    main()

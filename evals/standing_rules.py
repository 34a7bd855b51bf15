"""How many of the rules that a session holds are rules, and how many of the real ones it holds.

People have read logs and labelled them: who typed each message, and which spans of it are standing rules. This command
runs each log through a session and compares `context.standing_rules()` with the labels. It shares no code with what it
judges: a rule is right if its quote and a label's quote overlap in the same message.

    python -m evals.standing_rules LABELS TRANSCRIPTS                  the session without a model
    ... --replies FOLDER                                               with recorded replies of a model
    ... --requests FOLDER                                              also write the requests

LABELS holds one JSON file a log: `log` (a path under TRANSCRIPTS), `messages` (number: `human`, `mixed`, `injected`)
and `rules` (`message`, `quote`, `strength`, `ended_by`). Transcripts are JSONL, one message a line, also in gzip.

A log is fed whole, then the session works until it is idle. Each request for rules is written to a file
FOLDER/<log>/<key>.txt: a line `=== SYSTEM ===`, the instructions, a line `=== USER ===`, the content. Its reply is read
from <key>.txt or <log>/<key>.txt of the folder of replies. The key is the first 20 hex digits of SHA-256 of the
instructions, a NUL and the content. What a reply says enters later requests of its log: write them again until none
lacks a reply. Each reply has to be written from its own request alone. Summaries are a fixed text.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summarizing_context import Settings, StandingRule, SummaryJob, open_context
from summarizing_context.messages.reading import read_message

_MARKS = str.maketrans("’‘“”„«»", '\'\'"""""')


@dataclass
class Figures:
    """Counts of one log, or of several."""

    shown: int = 0  # rules that the session holds
    right: int = 0  # of these
    labelled: int = 0
    found: int = 0  # of these
    ended: int = 0  # labelled rules that a later message ends
    ended_found: int = 0  # of these, with that message
    authors: Counter[tuple[bool, bool]] = field(default_factory=Counter)  # (typed by the label, by the session)
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Figures) -> None:
        for name in ("shown", "right", "labelled", "found", "ended", "ended_found", "authors"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        return (
            f"precision {_share(self.right, self.shown)}, recall {_share(self.found, self.labelled)}, "
            f"ended {self.ended_found}/{self.ended}"
        )


class Recorded:
    """A summarizer that answers requests for rules with recorded replies, and writes the requests down."""

    recipe = "recorded replies/1"

    def __init__(self, log: str, replies: Path | None, requests: Path | None) -> None:
        self._log, self._replies, self._requests = log, replies, requests
        self.missing = 0

    async def summarize(self, job: SummaryJob) -> str:
        if job.kind != "rules":
            return "## Done\n- The work went on."
        key = hashlib.sha256(f"{job.instructions}\0{job.content}".encode("utf-8", "surrogatepass")).hexdigest()[:20]
        if self._requests is not None:
            text = f"=== SYSTEM ===\n{job.instructions}\n=== USER ===\n{job.content}\n"
            (self._requests / self._log).mkdir(parents=True, exist_ok=True)
            (self._requests / self._log / f"{key}.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
        places = [self._replies / f"{key}.txt", self._replies / self._log / f"{key}.txt"] if self._replies else []
        if (reply := next((place for place in places if place.exists()), None)) is not None:
            return reply.read_text(encoding="utf-8")
        self.missing += 1
        return "none" if self._requests is not None else ""


async def run_log(messages: Sequence[dict[str, Any]], model: Recorded | None, settings: Settings) -> list[StandingRule]:
    """The rules that a session holds after a log."""
    async with open_context(settings, summarizer=model) as context:
        await context.set_messages(list(messages))
        if model is not None:
            await context.wait_idle(600)
        return list(context.standing_rules())


def judge(messages: Sequence[dict[str, Any]], labels: dict[str, Any], rules: Sequence[StandingRule]) -> Figures:
    """The session's rules beside the labels."""
    figures = Figures(shown=len(rules), labelled=len(labels["rules"]))
    texts = [_plain(_text(message)) for message in messages]
    spans = [set(_spans(texts[rule.message], rule.quote)) for rule in rules]
    wanted = [set(_spans(texts[label["message"]], label["quote"])) for label in labels["rules"]]
    matched: set[int] = set()
    for rule, places in zip(rules, spans, strict=True):
        hits = {
            number
            for number, (label, others) in enumerate(zip(labels["rules"], wanted, strict=True))
            if label["message"] == rule.message and _overlap(places, others)
        }
        matched |= hits
        figures.right += bool(hits)
        if not hits:
            figures.wrong.append(f'[{rule.message}] {rule.source} "{rule.quote}"')
        figures.ended_found += any(labels["rules"][hit]["ended_by"] == rule.ended_by is not None for hit in hits)
    figures.found = len(matched)
    figures.ended = sum(label["ended_by"] is not None for label in labels["rules"])
    figures.missed = [
        f'[{label["message"]}] "{label["quote"]}"' for n, label in enumerate(labels["rules"]) if n not in matched
    ]
    for number, who in labels["messages"].items():
        figures.authors[who != "injected", bool(read_message(messages[int(number)]).typed)] += 1
    return figures


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(
        str(block["text"]) for block in content or () if isinstance(block, dict) and block.get("type") == "text"
    )


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).translate(_MARKS).split())


def _spans(text: str, quote: str) -> Iterator[tuple[int, int]]:
    """Where a quote stands in a text."""
    words = _plain(quote)
    at = text.find(words) if words else -1
    while at >= 0:
        yield at, at + len(words)
        at = text.find(words, at + 1)


def _overlap(one: set[tuple[int, int]], other: set[tuple[int, int]]) -> bool:
    return any(start < end and begin < stop for start, stop in one for begin, end in other)


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole}" + (f" = {part / whole:.2f}" if whole else "")


def _load(folder: Path, name: str) -> list[dict[str, Any]]:
    """The messages of a transcript; the first folder of its name may be left out, or be the folder given."""
    inside = Path(*Path(name).parts[1:])
    path = next(path for path in (folder / name, folder / inside, folder.parent / name) if path.is_file())
    lines = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).splitlines()
    rows = (json.loads(line) for line in lines if line.strip())
    return [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]


async def main(arguments: argparse.Namespace) -> None:
    with_model = arguments.replies is not None or arguments.requests is not None
    settings = Settings(max_tokens=arguments.budget, **({"start_at": 0.01} if with_model else {}))
    total, missing = Figures(), 0
    for file in sorted(arguments.labels.glob("*.json")):
        if arguments.logs is not None and file.stem not in arguments.logs.split(","):
            continue
        labels = json.loads(file.read_text(encoding="utf-8"))
        messages = _load(arguments.transcripts, labels["log"])
        model = Recorded(file.stem, arguments.replies, arguments.requests) if with_model else None
        figures = judge(messages, labels, await run_log(messages, model, settings))
        print(f"{file.stem} {figures}" + (f"; {model.missing} requests have no reply" if model else ""))
        if arguments.show:
            print("".join(f"    wrong  {line}\n" for line in figures.wrong), end="")
            print("".join(f"    missed {line}\n" for line in figures.missed), end="")
        total.add(figures)
        missing += model.missing if model else 0
    print(f"all: {total}")
    typed = total.authors[True, True]
    told, known = typed + total.authors[False, True], typed + total.authors[True, False]
    print(f"typed by a human: precision {_share(typed, told)}, recall {_share(typed, known)}")
    if with_model:
        print(f"{missing} requests have no reply")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("--replies", type=Path, help="folder of <key>.txt")
    parser.add_argument("--requests", type=Path, help="folder to write <key>.json to")
    parser.add_argument("--logs", help="names of label files such as g01,g05; all by default")
    parser.add_argument("--budget", type=int, default=16_000, help="tokens of a view")
    parser.add_argument("--show", action="store_true", help="print wrong and missed rules")
    asyncio.run(main(parser.parse_args()))

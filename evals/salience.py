"""Learn the weights of the extractive summarizer's lines from notes that a language model wrote.

    python -m evals.salience NOTES.jsonl.gz [--out salience.toml] [--without LOG]

NOTES has a JSON object a line: `user`, a segment's content as it was sent, `reply`, the notes on it, and `log`, the
session that it comes from. A line of the content counts as kept by the share of its rare words that one bullet of
the notes holds. Least squares with a penalty; numpy is needed here, and never where the weights are used.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from summarizing_context.messages.text import Words, words_of
from summarizing_context.summarizers.extractive.lines import STOP_WORDS, features
from summarizing_context.summarizers.extractive.sections import split_blocks
from summarizing_context.summarizers.extractive.segments import read_lines

PENALTY = 20.0
BY_CHANCE = 12.0  # weight of the words that some bullet holds by chance
_QUOTING = re.compile(r"## (?:Intent|Constraints).*?(?=\n## |\Z)", re.DOTALL)  # sections of the human's words
LEAST_USES, LEAST_LOGS = 25, 3  # of a word that gets a weight of its own


def examples(notes: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[tuple[str, int]], float]]:
    """The log, the features and the kept share of each line of each content."""
    for note in notes:
        vocabulary, lines = read_lines(split_blocks(note["user"]))
        uses = Counter(word for line in lines for word in line.words)
        total = sum(uses.values())
        rare = {word: math.log(1 + total / times) for word, times in uses.items() if word not in vocabulary.empty}
        told = [frozenset(words_of(bullet)) for bullet in _QUOTING.sub("", note["reply"]).split("\n")]
        for line in lines:
            if line.kind != "user":  # humans are quoted whatever they say
                yield note["log"], [*features(line, vocabulary)], _kept(line.words, rare, told)


def _kept(words: Words, rare: Mapping[bytes, float], told: Sequence[frozenset[bytes]]) -> float:
    """The share of a line's rare words that one bullet holds; a short line counts less, for it says less."""
    telling = {word for word in words if word in rare}
    whole = sum(rare[word] for word in telling) + BY_CHANCE
    return max((sum(rare[word] for word in telling & bullet) for bullet in told), default=0.0) / whole


def learn(notes: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """The weights in thousandths, by the name of the feature."""
    rows = [*examples(notes)]
    logs, seen = defaultdict(set), Counter[str]()
    for log, named, _ in rows:
        for name, _ in named:
            logs[name].add(log)
            seen[name] += 1
    kept = {name for name in seen if not name.startswith("word ") or _common(name, seen, logs)}
    columns = {
        each: at for at, each in enumerate(sorted({each for _, named, _ in rows for each in named if each[0] in kept}))
    }
    table = np.zeros((len(rows), len(columns)))
    for at, (_, named, _) in enumerate(rows):
        table[at, [columns[each] for each in named if each in columns]] = 1
    goal = np.array([share for _, _, share in rows])
    solved = np.linalg.solve(table.T @ table + PENALTY * np.eye(len(columns)), table.T @ goal)
    weights: dict[str, list[int]] = defaultdict(list)
    for name, at in columns:
        lists = weights[name]
        lists += [0] * (_buckets(name) - len(lists))
        lists[at] = round(1000 * solved[columns[name, at]])
    return dict(weights)


def _buckets(name: str) -> int:
    return {"length": 6, "values": 5, "said": 5, "asked": 5}.get(name.rpartition(" ")[2], 2)


def _common(name: str, seen: Counter[str], logs: dict[str, set[str]]) -> bool:
    return seen[name] >= LEAST_USES and len(logs[name]) >= LEAST_LOGS and name[5:].encode() in STOP_WORDS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notes", type=Path)
    parser.add_argument("--out", type=Path, default=Path("summarizing_context/summarizers/extractive/salience.toml"))
    parser.add_argument("--without", default="", help="leave out the logs whose names begin so, to test on them")
    given = parser.parse_args()
    with gzip.open(given.notes, "rt", encoding="utf-8") as lines:
        notes = [note for note in map(json.loads, lines) if not note.get("rank")]
    notes = [note for note in notes if not (given.without and note["log"].startswith(given.without))]
    weights = learn(notes)
    about = "# Thousandths, by feature and bucket. Learnt by `evals/salience.py`; not edited by hand.\n\n[weights]\n"
    text = "".join(f"{json.dumps(name)} = {weights[name]}\n" for name in sorted(weights))
    given.out.write_text(about + text, encoding="utf-8")


if __name__ == "__main__":
    main()

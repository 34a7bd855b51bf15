"""Learn the weights of the extractive summarizer's lines from notes that a language model wrote.

    python -m evals.salience NOTES.jsonl.gz [--out salience.toml] [--without LOG]

NOTES has a JSON object a line: `user`, a segment's content as it was sent, `reply`, the notes on it, and `log`, the
session that it comes from. A line of the content counts as kept by the share of its rare words and of its pairs of
words that the notes hold. Least squares with a penalty; numpy is needed here, and never where the weights are used.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from summarizing_context.messages.text import Words, words_of
from summarizing_context.summarizers.extractive.salience import STOP_WORDS, features
from summarizing_context.summarizers.extractive.sections import split_blocks
from summarizing_context.summarizers.extractive.segments import read_lines

PENALTY = 20.0
_QUOTING = re.compile(r"## (?:Intent|Constraints).*?(?=\n## |\Z)", re.DOTALL)  # sections of the human's words
LEAST_USES, LEAST_LOGS = 25, 3  # of a word that gets a weight of its own


def examples(notes: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[tuple[str, int]], float]]:
    """The log, the features and the kept share of each line of each content."""
    for note in notes:
        talk, lines = read_lines(split_blocks(note["user"]))
        uses = Counter(word for line in lines for word in line.words)
        total, told = sum(uses.values()), words_of(_QUOTING.sub("", note["reply"]))
        held, pairs = set(told), set(pairwise(word for word in told if word not in talk.empty))
        for line in lines:
            if line.kind == "user":
                continue  # humans are quoted whatever they say
            named = [*features(line, talk)]
            yield (
                note["log"],
                named,
                _kept([word for word in line.words if word not in talk.empty], uses, total, held, pairs),
            )


def _kept(words: Words, uses: Counter[bytes], total: int, held: set[bytes], pairs: set[tuple[bytes, bytes]]) -> float:
    rare = {word: math.log(1 + total / uses[word]) for word in words}
    if not rare:
        return 0.0
    both = [*pairwise(words)]
    of_words = sum(weight for word, weight in rare.items() if word in held) / sum(rare.values())
    return (of_words + sum(pair in pairs for pair in both) / max(len(both), 1)) / 2


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

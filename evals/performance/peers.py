"""Put all managers through the same session and the same chats, and write what was counted, with a hash, and timed.

    python -m evals.performance.peers [--names ours,langchain] [--parts counts,times] [--beam FOLDER]

The hash of what is counted without a clock is the same on all machines. With a folder of BEAM, each manager plays its
chats, with a summarizer that picks sentences; then this package makes a view of at most as many tokens for each last
view, and the share of the evidence that both hold is compared.
"""

import argparse
import asyncio
import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from evals.performance.bench import RUNS, machine, run, short
from evals.performance.fake_model import FakeModel, Reader
from evals.performance.managers import MANAGERS
from evals.performance.managers.ours import ByFakeModel
from evals.performance.run import CHAT_SUMMARY, PRICES
from evals.performance.tokens import CHARACTERS, Message, message_tokens, text_tokens, wire
from summarizing_context import Settings, open_context
from summarizing_context.evaluation.datasets import Dataset, Question
from summarizing_context.evaluation.report import paired
from summarizing_context.evaluation.run import VALUES_HELD
from summarizing_context.evaluation.views import Text

BUDGET = 16_000  # tokens
SEARCH = 6  # views for one size
TIMES = ("view_p50_ms", "view_p99_ms", "view_max_ms", "stall_ms")
PARTS = ("counts", "evidence", "times")
OUT = Path(__file__).with_name("results") / "peers.json"


async def views_of_ours(messages: Sequence[Message], sizes: Sequence[int], *, by_model: bool) -> list[str]:
    """Return a view of ours for each size, as text: the largest of at most so many tokens that a budget gives. Each is
    the first of its session, for another of a session would begin with what is shown already."""
    model = FakeModel(0.0, write=Reader(messages), max_tokens=CHAT_SUMMARY)
    summarizer, found = ByFakeModel(model) if by_model else None, list[str]()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        shared = Settings(store=Path(folder) / "ours.db", start_at=0.0, idle_after="never", breaker_failures=1_000)
        for place, size in enumerate(sizes):
            best, low, high = (0, ""), size, 4 * size
            for attempt in range(SEARCH):  # a view that has just been shortened is smaller than its budget
                budget = (low + high) // 2 if attempt else low
                settings = replace(shared, session_id=f"{place}-{attempt}", max_tokens=budget)
                async with open_context(settings, summarizer=summarizer, count_tokens=text_tokens) as context:
                    await context.set_messages(messages)
                    await context.wait_idle()
                    await context.get_messages_for_request()  # what it lacks is in the next one
                    await context.wait_idle()
                    view = await context.get_messages_for_request()
                tokens = sum(map(message_tokens, view))
                if tokens <= size:
                    best, low = max(best, (tokens, "\n".join(map(wire, view)))), budget
                else:
                    high = budget
            found.append(best[1])
    return found


def evidence(names: Sequence[str], dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Return what the last views of each manager hold, and what ours hold at the same sizes, as shares over chats."""
    chats: list[list[Message]] = []
    asked: list[list[Question]] = []
    for log in dataset.logs:
        messages = [*log.read()]
        ((_, questions),) = log.ask(messages, 0)
        chats.append(messages[: max(at for at, message in enumerate(messages) if message["role"] == "user") + 1])
        asked.append(questions)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        file = Path(folder) / "chats.json"
        file.write_text(json.dumps(chats), encoding="utf-8")
        chosen = ("--kind", "chats", "--chats", str(file), "--budget", str(BUDGET))
        last: dict[str, list[Any]] = {name: run(name, *chosen) for name in names}
    ours: dict[str, list[list[str]]] = {}  # views by arm: of each chat, one for each manager
    for arm in ("ours", "ours_extractive"):
        sizes = [[last[name][at]["tokens"] for name in names] for at in range(len(chats))]
        views = (views_of_ours(*pair, by_model=arm == "ours") for pair in zip(chats, sizes, strict=True))
        ours[arm] = list(map(asyncio.run, views))
    found = {}
    for number, name in enumerate(names):
        texts = {"kept": [view["text"] for view in last[name]]}
        texts |= {arm: [of_chat[number] for of_chat in views] for arm, views in ours.items()}
        values = defaultdict[str, dict[tuple[str, str, str], float]](dict)
        for arm, shown in texts.items():  # the share of its evidence that the view of each chat holds
            for log, view, questions in zip(dataset.logs, shown, asked, strict=True):
                points = sum(VALUES_HELD.points(question, Text([view])) or 0.0 for question in questions)
                values[arm][log.name, "", ""] = points / len(questions)
        digest = hashlib.sha256("\0".join(text for shown in texts.values() for text in shown).encode())
        found[name] = {
            **{arm: sum(each.values()) / len(each) for arm, each in values.items()},
            "ours_ahead": paired(values["ours"], values["kept"]),
            "mean_tokens": sum(view["tokens"] for view in last[name]) / len(chats),
            "ours_mean_tokens": sum(map(len, texts["ours"])) / CHARACTERS / len(chats),
            "chats": len(chats),
            "digest": digest.hexdigest()[:16],
        }
    return found


def hash_of(told: dict[str, Any]) -> str:
    """Return the hash of what all machines count alike."""
    same = {part: told.get(part) for part in ("prices", "counts", "evidence")}
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()


def main() -> None:
    """Read the command line, measure, show and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", default=",".join(MANAGERS), help="managers, with commas between them")
    parser.add_argument("--parts", default=",".join(PARTS), help="others stay as they are in the file")
    parser.add_argument("--beam", type=Path, help="a folder of chats of BEAM, such as chats/100K, for evidence")
    asked = parser.parse_args()
    names = asked.names.split(",")
    told: Any = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}  # what is not measured now stays
    told |= {"what": {name: MANAGERS[name].defaults for name in names}, "prices": PRICES}
    if "counts" in asked.parts:
        told["counts"] = {name: run(name, "--kind", "steps", *RUNS["main"]) for name in names}
    if "evidence" in asked.parts:
        told["evidence"] = evidence(names, Dataset.load(f"beam:{asked.beam}"))
    if "times" in asked.parts:
        timed = {name: run(name, *RUNS["main"]) for name in names}
        told["times"] = {name: {figure: of[figure] for figure in TIMES} for name, of in timed.items()}
        told["machine"] = machine()
    told = json.loads(json.dumps(told), parse_float=lambda digits: round(float(digits), 4))
    told["sha256"] = hash_of(told)
    OUT.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    shown = Table("", *names, title=told["sha256"])
    for part in PARTS:
        for figure in told.get(part, {}).get(names[0], {}):
            values = [told[part][name][figure] for name in names]
            if isinstance(values[0], int | float):
                shown.add_row(figure.replace("_", " "), *map(short, values))
    Console(width=200).print(shown)


if __name__ == "__main__":
    main()

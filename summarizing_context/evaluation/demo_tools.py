"""What the tools of the demo session print: listings, files, test runs, journals, metrics, rows, histories.

Pure: each takes the project as it is and dice, and gives text. When a tool is called is `demo_session`'s business.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

from summarizing_context.evaluation.demo_project import Project, argument_of, test_path

FERRIES = ("Solvind", "Marstal", "Kongsholm", "Havørnen", "Elvira", "Skarven", "Fanny Holm", "Nordlys", "Agersund")

_EVENTS = (
    ("INFO", "planner", "plan for {day} made in {ms} ms, {n} arrivals, score {score}"),
    ("INFO", "api", "POST /arrivals 201 {ferry} berth {berth} {ms} ms agent=island-line"),
    ("INFO", "api", "GET /plan/{day} 200 {ms} ms"),
    ("DEBUG", "tides", "level at outer-mole {level} cm, low water in {n} min"),
    ("INFO", "cache", "{n}00 plans cached, {ms} kB each on average"),
    ("WARNING", "conflicts", "{ferry} and {other} overlap {n} min at berth {berth}, resolved by swap"),
    ("INFO", "pager", "page to harbour-office delivered in {ms} ms: {ferry} now at berth {berth}"),
    ("WARNING", "rules", "{ferry} refused at berth {berth}: keel clearance {level} cm"),
    ("INFO", "store", "checkpoint of {n} pages in {ms} ms"),
    ("ERROR", "tides", "no reading from outer-mole for {n} min, the radio link is busy"),
)


def list_files(project: Project, folder: str, dice: random.Random) -> str:
    """A long listing of the files under a folder."""
    paths = sorted(path for path in project.files if folder == "." or path.startswith(folder))
    lines = [
        f"-rw-r--r-- 1 deploy deploy {len(project.text(path)):>6} Apr {dice.randrange(1, 29):>2} "
        f"{dice.randrange(7, 19):02}:{dice.randrange(60):02} {path}"
        for path in paths
    ]
    return "\n".join([f"total {len(paths)}", *lines])


def read_file(project: Project, path: str) -> str:
    """A file with its line numbers."""
    return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(project.files[path], start=1))


def search(project: Project, words: str) -> str:
    """Every line that holds the words, with file and line number."""
    found = [
        f"{path}:{number}: {line.strip()}"
        for path, lines in sorted(project.files.items())
        for number, line in enumerate(lines, start=1)
        if words in line
    ]
    return "\n".join(found) or f"no match for {words!r}"


def tests_pass(dice: random.Random, count: int) -> str:
    """A quiet test run in which everything passes."""
    return "\n".join([*_dots("." * count), f"{count} passed in {dice.uniform(4, 9):.2f}s"])


def tests_fail(project: Project, path: str, function: str, error: str, *, dice: random.Random, count: int) -> str:
    """A quiet test run in which one test fails, with its traceback."""
    at = project.line_of(path, f"def {function}(")
    test = project.line_of(test_path(path), f"def test_{function}_takes")
    body = project.files[path][at - 1 : at + 12]
    arg = argument_of(project.seed, function)
    name = f"test_{function}_takes_any_{arg}[{dice.randrange(2, 40)}]"
    marks = [*"." * (count - 1)]
    marks.insert(dice.randrange(count), "F")
    return "\n".join(
        [
            *_dots("".join(marks)),
            "=" * 34 + " FAILURES " + "=" * 35,
            f"{'_' * 12} {name} {'_' * 12}",
            f"{test_path(path)}:{test + 2}: in {name.split('[')[0]}",
            f"    {project.files[test_path(path)][test + 1].strip()}",
            f"{path}:{at + 6}: in {function}",
            *(f"    {line}" for line in body),
            f"E   {error}",
            "=" * 26 + " short test summary info " + "=" * 28,
            f"FAILED {test_path(path)}::{name} - {error.split(':')[0]}",
            f"1 failed, {count - 1} passed in {dice.uniform(4, 9):.2f}s",
        ]
    )


def journal(dice: random.Random, day: str, lines: int, extra: Sequence[str] = ()) -> str:
    """The service's journal of one night, oldest first; `extra` lines stand among the others."""
    second, out = dice.randrange(60), list[str]()
    for _ in range(lines):
        second += dice.randrange(20, 400)
        level, part, words = dice.choice(_EVENTS)
        ferry, other = dice.sample(FERRIES, 2)
        said = words.format(
            day=day, ferry=ferry, other=other, berth=dice.randrange(1, 7), n=dice.randrange(2, 48),
            ms=dice.randrange(3, 240), level=dice.randrange(41, 312), score=dice.randrange(12, 80),
        )  # fmt: skip
        stamp = f"{day} {second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        out.append(f"{stamp} quay-1 quayside[{2100 + second % 7}]: {level:<7} {part}: {said}")
    for line in extra:
        out.insert(dice.randrange(lines // 2, lines), line)
    return "\n".join(out)


def metrics(dice: random.Random, port: int, memory_mb: int) -> str:
    """The service's metrics as JSON."""
    routes = ("GET /plan", "POST /arrivals", "DELETE /arrivals", "GET /berths", "GET /metrics")
    return json.dumps(
        {
            "service": "quayside",
            "listen": f"127.0.0.1:{port}",
            "uptime_s": dice.randrange(3_000, 90_000),
            "memory_mb": memory_mb,
            "routes": [
                {"route": route, "count": dice.randrange(90, 9_000), "p50_ms": dice.randrange(3, 20),
                 "p99_ms": dice.randrange(30, 900), "errors": dice.randrange(4)}
                for route in routes
            ],
            "cache": {"plans": memory_mb * 36, "hits": dice.randrange(10_000), "misses": dice.randrange(900)},
            "tides": {"station": "outer-mole", "age_s": dice.randrange(900), "level_cm": dice.randrange(40, 320)},
        },
        indent=1,
        ensure_ascii=False,
    )  # fmt: skip


def rows(dice: random.Random, count: int, month: int) -> str:
    """Rows of the database, one JSON object a line."""
    out = []
    for _ in range(count):
        hour, minute = dice.randrange(5, 23), dice.choice((0, 5, 10, 20, 25, 35, 40, 50))
        row = {
            "id": dice.randrange(10_000, 99_999),
            "ferry": dice.choice(FERRIES),
            "imo": f"9{dice.randrange(100_000, 999_999)}",
            "berth": dice.randrange(1, 7),
            "arrives_at": f"2026-{month:02}-{dice.randrange(1, 29):02}T{hour:02}:{minute:02}Z",
            "stay_min": dice.randrange(20, 190),
            "draught_cm": dice.randrange(210, 560),
            "level_cm": dice.randrange(40, 320),
            "status": dice.choice(("moored", "left", "left", "cancelled", "announced")),
        }
        out.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(out)


def git_log(dice: random.Random, subjects: Sequence[str]) -> str:
    """The branch's newest commits, the last change first."""
    return "\n".join(f"{dice.getrandbits(28):07x} {subject}" for subject in reversed(subjects))


def _dots(marks: str) -> list[str]:
    total = len(marks)
    starts = range(0, total, 72)
    return [f"{marks[at : at + 72]:<72} [{min(at + 72, total) * 100 // total:>3}%]" for at in starts]

"""The invented project of the demo session, and the output of its tools.

Pure and seeded: the same seed gives the same files.
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

MODULES: dict[str, tuple[str, str]] = {  # path: what it is about, its functions
    "quayside/berths/planner.py": ("berth", "assign_berth free_berths swap_berths plan_day score_plan"),
    "quayside/berths/rules.py": ("rule", "max_draught keel_clearance allowed_lengths night_closure explain_refusal"),
    "quayside/berths/conflicts.py": ("conflict", "find_conflicts overlap_minutes resolve_conflict rank_conflicts"),
    "quayside/berths/cache.py": ("cached plan", "remember_plan forget_plan cache_size evict_oldest"),
    "quayside/tides/clock.py": ("tide time", "parse_clock roll_over_midnight to_harbour_time minutes_between"),
    "quayside/tides/importer.py": ("tide row", "import_table read_rows check_station store_rows report_gaps"),
    "quayside/tides/table.py": ("tide level", "level_at next_low_water interpolate_level station_offset"),
    "quayside/api/server.py": ("request", "start_server bind_port stop_server health_report"),
    "quayside/api/routes.py": ("route", "get_plan post_arrival cancel_arrival list_berths get_metrics"),
    "quayside/api/schemas.py": ("payload", "arrival_schema plan_schema validate_arrival error_body"),
    "quayside/store/sqlite.py": ("row", "open_database save_arrival load_arrivals vacuum_if_needed"),
    "quayside/store/migrations.py": ("migration", "pending_migrations apply_migration schema_version backup_first"),
    "quayside/store/queries.py": ("query", "arrivals_between berth_history ferry_by_imo occupancy_by_hour"),
    "quayside/notify/pager.py": ("page", "page_harbour_office quiet_hours retry_page format_page"),
    "quayside/reports/occupancy.py": ("occupancy row", "occupancy_table busiest_hour write_report round_share"),
    "quayside/reports/daily.py": ("daily line", "daily_summary late_arrivals turnaround_times render_daily"),
}

CONFIG = "config/quayside.toml"

_FIELDS = (
    "arrives_at",
    "leaves_at",
    "berth",
    "ferry",
    "draught_cm",
    "length_m",
    "status",
    "station",
    "level_cm",
    "imo",
)

_TABLES = ("arrivals", "berths", "tide_levels", "ferries", "closures", "pages")

_REASONS = (
    "The harbour office works in local time, the database in UTC",
    "A ferry may be announced twice, by the agent and by its own transponder",
    "The gauge at the outer mole reports late when the radio link is busy",
    "Cancelled arrivals stay in the table, because the invoice still needs them",
    "Two ferries may share the long berth if both are shorter than half of it",
    "An empty plan is a plan; only a missing one is an error",
)

_BODIES = (
    """    rows = store.select("{table}", {field}={arg})
    if not rows:
        logger.info("no {noun} for %s", {arg})
        return {{}}
    newest = max(rows, key=lambda row: row["{other}"])
    # {reason}.
    found = {{name: value for name, value in newest.items() if value is not None}}
    found["{field}"] = {arg}
    return found""",
    """    total = 0
    skipped: list[str] = []
    for row in store.select("{table}"):
        if row["status"] == "cancelled" or row["{field}"] is None:
            skipped.append(row["ferry"])
            continue
        total += row["{other}"] if row["{field}"] >= {arg} else 0
    if len(skipped) > {number}:
        logger.warning("%d rows of {table} were skipped, first %s", len(skipped), skipped[0])
    return total""",
    """    limit = settings.integer("{table}.{field}_limit", default={number})
    candidates = [row for row in store.select("{table}") if row["{field}"] <= limit]
    # {reason}.
    candidates.sort(key=lambda row: (row["{other}"], row["ferry"]))
    if {arg} is not None:
        candidates = [row for row in candidates if row["berth"] != {arg}]
    return candidates[:{number}]""",
    """    if {arg} is None:
        raise QuaysideError("{noun}: {arg} is missing")
    before, after = store.neighbours("{table}", {arg})
    if before is None or after is None:
        return None
    share = (({arg} - before["{field}"]) / (after["{field}"] - before["{field}"])) if after != before else 0.0
    value = before["{other}"] + share * (after["{other}"] - before["{other}"])
    return round(value, {digits})""",
    """    deadline = clock.now() + timedelta(minutes={number})
    attempts = 0
    while clock.now() < deadline:
        attempts += 1
        answer = transport.send("{table}", {{"{field}": {arg}, "attempt": attempts}})
        if answer.accepted:
            return attempts
        # {reason}.
        clock.sleep(min(2**attempts, {number}))
    raise QuaysideError(f"{noun}: gave up after {{attempts}} attempts")""",
    """    problems = []
    if not isinstance({arg}.get("{field}"), str):
        problems.append("{field} must be text")
    if {arg}.get("{other}") in (None, ""):
        problems.append("{other} is missing")
    if len({arg}) > {number}:
        problems.append("more than {number} fields in one {noun}")
    # {reason}.
    return problems""",
    """    with store.transaction("{table}") as cursor:
        cursor.execute(
            "update {table} set {field} = :value, changed_at = :now where {other} = :key",
            {{"value": {arg}, "now": clock.now(), "key": self_key("{noun}")}},
        )
        changed = cursor.rowcount
    if changed > 1:
        raise QuaysideError(f"{noun}: {{changed}} rows changed, expected one")
    return changed == 1""",
)


@dataclass(slots=True)
class Project:
    """The files as they are now, by path."""

    seed: int
    files: dict[str, list[str]] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """The whole file."""
        return "\n".join(self.files[path]) + "\n"

    def line_of(self, path: str, needle: str) -> int:
        """Number of the first line that holds `needle`, from 1."""
        return next(number for number, line in enumerate(self.files[path], start=1) if needle in line)

    def edit(self, path: str, anchor: str, new: list[str], *, replaces: int = 0) -> str:
        """Put lines behind the first line that holds `anchor`, in place of the next `replaces`; the diff."""
        before = list(self.files[path])
        at = self.line_of(path, anchor)
        self.files[path] = [*before[:at], *new, *before[at + replaces :]]
        lines = difflib.unified_diff(before, self.files[path], f"a/{path}", f"b/{path}", lineterm="", n=4)
        return "\n".join(lines)

    def add_file(self, path: str, text: str) -> None:
        """Write a new file, or a file anew."""
        self.files[path] = text.rstrip("\n").split("\n")


def make_project(seed: int) -> Project:
    """The project as the session finds it."""
    project = Project(seed)
    for path, (noun, names) in MODULES.items():
        project.add_file(path, _module(seed, path, noun, names.split()))
        project.add_file(test_path(path), _tests(seed, path, noun, names.split()))
    project.add_file(CONFIG, _CONFIG)
    project.add_file("ops/quayside.service", _SERVICE)
    project.add_file(
        "docs/operations.md",
        "# Operations\n\nRestart with `systemctl restart quayside`. Logs: `journalctl -u quayside`.\n",
    )
    return project


def test_path(path: str) -> str:
    """Where the tests of a module stand."""
    return f"tests/test_{path.split('/')[-1]}"


def argument_of(seed: int, function: str) -> str:
    """The argument that a function of the project takes."""
    return _rng(seed, function).choice(("ferry", "day", "berth", "arrival", "station", "moment"))


def _rng(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/{name}")


def _module(seed: int, path: str, noun: str, names: list[str]) -> str:
    head = [
        f'"""{noun.capitalize()}s of the harbour: {", ".join(name.replace("_", " ") for name in names)}."""',
        "",
        "from __future__ import annotations",
        "",
        "from datetime import timedelta",
        "",
        "from quayside.errors import QuaysideError",
        "from quayside.runtime import clock, logger, self_key, settings, store, transport",
        "",
    ]
    return "\n".join(head + [part for name in names for part in ("", _function(seed, path, noun, name), "")])


def _function(seed: int, path: str, noun: str, name: str) -> str:
    rng = _rng(seed, f"{path}:{name}")
    arg = argument_of(seed, name)
    words = name.replace("_", " ")
    first, other = rng.sample(_FIELDS, 2)
    body = rng.choice(_BODIES).format(
        arg=arg, noun=noun, table=rng.choice(_TABLES), field=first, other=other,
        reason=rng.choice(_REASONS), number=rng.randrange(4, 90), digits=rng.choice((0, 1, 2)),
    )  # fmt: skip
    return f'def {name}({arg}):\n    """{words.capitalize()} for one {arg}."""\n{body}'


def _tests(seed: int, path: str, noun: str, names: list[str]) -> str:
    module = path.removesuffix(".py").replace("/", ".")
    lines = [f'"""Tests of {path}."""', "", "import pytest", "", f"from {module} import {', '.join(names)}", ""]
    for name in names:
        rng = _rng(seed, f"test:{name}")
        arg, low, high = argument_of(seed, name), rng.randrange(2, 40), rng.randrange(41, 400)
        first, second = rng.sample(_FIELDS, 2)
        lines += [
            "",
            f'@pytest.mark.parametrize(("{arg}", "{first}"), [({low}, "B{low % 7}"), ({high}, "B6"), (0, None)])',
            f"def test_{name}_takes_any_{arg}(harbour, {arg}, {first}):",
            f'    harbour.given("{rng.choice(_TABLES)}", {first}={first}, {second}={rng.randrange(100, 900)})',
            f"    assert {name}({arg}) == harbour.expected({first}, tolerance={rng.choice((0, 1, 5))})",
            "",
            f"def test_{name}_refuses_an_unknown_{noun.replace(' ', '_')}(harbour):",
            '    with pytest.raises(QuaysideError, match="missing|gave up|expected one"):',
            f'        {name}(harbour.unknown("{second}"))',
            "",
        ]
    return "\n".join(lines)


_CONFIG = """# quayside: one harbour, one file
[server]
host = "127.0.0.1"
port = 8080
workers = 2

[database]
path = "var/quayside.sqlite3"
busy_timeout_ms = 4000

[tides]
station = "outer-mole"
source = "data/tides/2026.csv"
offset_cm = 14

[berths]
keel_clearance_cm = 60
night_closure = "23:30-04:45"
cache_entries = 5000

[pager]
office = "harbour-office"
quiet_hours = "22:00-06:00"
retries = 3
"""

_SERVICE = """[Unit]
Description=quayside berth planner
After=network-online.target

[Service]
ExecStart=/opt/quayside/bin/quayside serve --config config/quayside.toml
Restart=on-failure
MemoryMax=512M

[Install]
WantedBy=multi-user.target
"""

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


def list_files(project: Project, folder: str, rng: random.Random) -> str:
    """A long listing of the files under a folder."""
    paths = sorted(path for path in project.files if folder == "." or path.startswith(folder))
    lines = [
        f"-rw-r--r-- 1 deploy deploy {len(project.text(path)):>6} Apr {rng.randrange(1, 29):>2} "
        f"{rng.randrange(7, 19):02}:{rng.randrange(60):02} {path}"
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


def tests_pass(rng: random.Random, count: int) -> str:
    """A quiet test run in which everything passes."""
    return "\n".join([*_dots("." * count), f"{count} passed in {rng.uniform(4, 9):.2f}s"])


def tests_fail(project: Project, path: str, function: str, error: str, *, rng: random.Random, count: int) -> str:
    """A quiet test run in which one test fails, with its traceback."""
    at = project.line_of(path, f"def {function}(")
    test = project.line_of(test_path(path), f"def test_{function}_takes")
    body = project.files[path][at - 1 : at + 12]
    arg = argument_of(project.seed, function)
    name = f"test_{function}_takes_any_{arg}[{rng.randrange(2, 40)}]"
    marks = [*"." * (count - 1)]
    marks.insert(rng.randrange(count), "F")
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
            f"1 failed, {count - 1} passed in {rng.uniform(4, 9):.2f}s",
        ]
    )


def journal(rng: random.Random, day: str, lines: int, extra: Sequence[str] = ()) -> str:
    """The service's journal of one night, oldest first; `extra` lines stand among the others."""
    second, out = rng.randrange(60), list[str]()
    for _ in range(lines):
        second += rng.randrange(20, 400)
        level, part, words = rng.choice(_EVENTS)
        ferry, other = rng.sample(FERRIES, 2)
        message = words.format(
            day=day, ferry=ferry, other=other, berth=rng.randrange(1, 7), n=rng.randrange(2, 48),
            ms=rng.randrange(3, 240), level=rng.randrange(41, 312), score=rng.randrange(12, 80),
        )  # fmt: skip
        stamp = f"{day} {second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        out.append(f"{stamp} quay-1 quayside[{2100 + second % 7}]: {level:<7} {part}: {message}")
    for line in extra:
        out.insert(rng.randrange(lines // 2, lines), line)
    return "\n".join(out)


def metrics(rng: random.Random, port: int, memory_mb: int) -> str:
    """The service's metrics as JSON."""
    routes = ("GET /plan", "POST /arrivals", "DELETE /arrivals", "GET /berths", "GET /metrics")
    return json.dumps(
        {
            "service": "quayside",
            "listen": f"127.0.0.1:{port}",
            "uptime_s": rng.randrange(3_000, 90_000),
            "memory_mb": memory_mb,
            "routes": [
                {"route": route, "count": rng.randrange(90, 9_000), "p50_ms": rng.randrange(3, 20),
                 "p99_ms": rng.randrange(30, 900), "errors": rng.randrange(4)}
                for route in routes
            ],
            "cache": {"plans": memory_mb * 36, "hits": rng.randrange(10_000), "misses": rng.randrange(900)},
            "tides": {"station": "outer-mole", "age_s": rng.randrange(900), "level_cm": rng.randrange(40, 320)},
        },
        indent=1,
        ensure_ascii=False,
    )  # fmt: skip


def rows(rng: random.Random, count: int, month: int) -> str:
    """Rows of the database, one JSON object a line."""
    out = []
    for _ in range(count):
        hour, minute = rng.randrange(5, 23), rng.choice((0, 5, 10, 20, 25, 35, 40, 50))
        row = {
            "id": rng.randrange(10_000, 99_999),
            "ferry": rng.choice(FERRIES),
            "imo": f"9{rng.randrange(100_000, 999_999)}",
            "berth": rng.randrange(1, 7),
            "arrives_at": f"2026-{month:02}-{rng.randrange(1, 29):02}T{hour:02}:{minute:02}Z",
            "stay_min": rng.randrange(20, 190),
            "draught_cm": rng.randrange(210, 560),
            "level_cm": rng.randrange(40, 320),
            "status": rng.choice(("moored", "left", "left", "cancelled", "announced")),
        }
        out.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(out)


def git_log(rng: random.Random, subjects: Sequence[str]) -> str:
    """The branch's newest commits, the last change first."""
    return "\n".join(f"{rng.getrandbits(28):07x} {subject}" for subject in reversed(subjects))


def _dots(marks: str) -> list[str]:
    total = len(marks)
    starts = range(0, total, 72)
    return [f"{marks[at : at + 72]:<72} [{min(at + 72, total) * 100 // total:>3}%]" for at in starts]

"""The messages of the bundled demo session.

The same seed gives the same messages. The project is in `demo_project`, the story in `demo_story.toml`.
"""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation import demo_project as tools
from summarizing_context.evaluation.demo_project import CONFIG, MODULES, Project, argument_of, make_project, test_path

TURNS = 44  # of the whole story
_AGAIN = (
    "One more look at the same place, please: does what we did there still hold?",
    "Before we go on, read this part again and tell me whether anything has changed.",
    "The office asks about this once more. Check it against what runs on the test host.",
)


class _Call(NamedTuple):
    tool: str
    arguments: dict[str, Any]
    output: Callable[[], str]  # made when the call is run: a test sees what was edited before it


def demo_session(seed: int = 7, turns: int = TURNS) -> list[dict[str, Any]]:
    """The session's messages in OpenAI chat shape: 44 turns make some 500 messages and 170k tokens.

    A shorter session keeps the turns that `demo_questions` asks about; a longer one comes back to earlier turns.
    """
    story = load_story()
    needed = sum(1 for turn in story["turn"] if turn.get("needed"))
    if not isinstance(turns, int) or turns < needed:
        raise SettingsError(f"turns = {turns!r}: the demo session needs at least {needed} turns")
    writer = _Writer(seed)
    writer.messages.append({"role": "system", "content": story["system"]})
    for number, turn in enumerate(_chosen(story["turn"], turns)):
        writer.add_turn(turn, again=number >= len(story["turn"]))
    return writer.messages


def load_story() -> dict[str, Any]:
    """The turns and the questions, as `demo_story.toml` has them."""
    return tomllib.loads((files("summarizing_context.evaluation") / "demo_story.toml").read_text(encoding="utf8"))


def _chosen(story: list[dict[str, Any]], turns: int) -> list[dict[str, Any]]:
    """So many turns of the story in its order; past its end, ordinary turns come back."""
    if turns >= len(story):
        ordinary = [turn for turn in story if turn["kind"] in ("survey", "operate", "data")]
        return story + [ordinary[number % len(ordinary)] for number in range(turns - len(story))]
    spare = turns - sum(1 for turn in story if turn.get("needed"))
    others = [at for at, turn in enumerate(story) if not turn.get("needed")]
    kept = {others[number * len(others) // spare] for number in range(spare)}
    return [turn for at, turn in enumerate(story) if turn.get("needed") or at in kept]


class _Writer:
    """Writes turns as messages and keeps the project up with them."""

    def __init__(self, seed: int) -> None:
        self.messages: list[dict[str, Any]] = []
        self._project: Project = make_project(seed)
        self._rng = random.Random(seed)
        self._calls = 0
        self._tests = 118
        self._port = 8080
        self._memory_mb = 210
        self._commits = ["initial import of quayside", "tides: gauge at the outer mole", "berths: night closure"]

    def add_turn(self, turn: dict[str, Any], *, again: bool) -> None:
        """One turn: the request, the work, the last words."""
        request = f"{self._rng.choice(_AGAIN)} ({turn['function']} in {turn['path']})" if again else turn["ask"]
        self.messages.append({"role": "user", "content": request})
        getattr(self, f"_{turn['kind']}")(turn)
        self.messages.append({"role": "assistant", "content": turn["close"]})

    def _survey(self, turn: dict[str, Any]) -> None:
        path, function = turn["path"], turn["function"]
        folder = "." if self._calls == 0 else path.rsplit("/", 1)[0]
        self._work(
            f"I will look at {'the whole tree' if folder == '.' else folder} and at every use of {function}.",
            self._list(folder),
            self._search(function),
        )
        self._work("Now the module with its tests, and a neighbour of it.", *map(self._read, self._around(path)))
        self._work(f"I still want to see what {function} touches.", self._read(self._neighbour(path, 2)))

    def _change(self, turn: dict[str, Any]) -> None:
        path, function = turn["path"], turn["function"]
        self._work(f"First where {function} is used.", self._search(function))
        self._work(f"I read {path} and its tests together.", *map(self._read, self._around(path)[:2]))
        self._work(f"{function} is the right place; the change goes to its beginning.", self._edit(turn))
        self._tests += 2
        self._work("Now the tests.", self._run("pytest -q", lambda: tools.tests_pass(self._rng, self._tests)))
        self._commit(turn)

    def _failure(self, turn: dict[str, Any]) -> None:
        path, function, error = turn["path"], turn["function"], turn["error"]
        red = self._run("pytest -q", lambda: self._failing(path, function, error))
        self._work("I run it to see the error with my own eyes.", red)
        around = map(self._read, self._around(path))
        self._work(f"It says: {error}. I read {function}, its tests and its neighbour.", *around)
        self._work(f"The cause is in {function}.", self._edit(turn))
        self._tests += 1
        self._work("And the tests again.", self._run("pytest -q", lambda: tools.tests_pass(self._rng, self._tests)))
        self._commit(turn)

    def _operate(self, turn: dict[str, Any]) -> None:
        day = f"2026-04-{self._rng.randrange(10, 29)}"
        kills = self._kills(turn, day)
        night = self._run(
            f"journalctl -u quayside --since {day} -n 120", lambda: tools.journal(self._rng, day, 120, kills)
        )
        state = self._run(
            f"curl -s localhost:{self._port}/metrics", lambda: tools.metrics(self._rng, self._port, self._memory_mb)
        )
        self._work("The journal and the metrics, at the same time.", night, state)
        self._work(f"Now {turn['function']}, where this comes from.", *map(self._read, self._around(turn["path"])))

    def _data(self, turn: dict[str, Any]) -> None:
        month = self._rng.randrange(1, 5)
        table = self._rng.choice(("arrivals", "tide_levels", "closures"))
        first = self._query(f"select * from {table} where month = {month} limit 40", 40, month)
        second = self._query(f"select * from {table} where month = {month + 1} limit 25", 25, month + 1)
        self._work("I ask the database for two months at once.", first, second)
        self._work(f"And how {turn['function']} sees it.", *map(self._read, self._around(turn["path"])[:2]))

    def _settings(self, turn: dict[str, Any]) -> None:
        self._work("Where is it read, and what does the file say?", self._search(turn["function"]), self._read(CONFIG))
        if "new" in turn:
            self._port = 9090
            self._work("I change it in the settings, the only place.", self._edit(turn, anchor="host ="))
            self._work("And the tests.", self._run("pytest -q", lambda: tools.tests_pass(self._rng, self._tests)))
            self._commit(turn)

    def _work(self, words: str, *calls: _Call) -> None:
        """One assistant message that makes calls at once, and their results."""
        listed, results = [], []
        for call in calls:
            self._calls += 1
            id = f"call_{self._calls:04}"
            function = {"name": call.tool, "arguments": json.dumps(call.arguments, ensure_ascii=False)}
            listed.append({"id": id, "type": "function", "function": function})
            results.append({"role": "tool", "tool_call_id": id, "content": call.output()})
        self.messages += [{"role": "assistant", "content": words, "tool_calls": listed}, *results]

    def _list(self, folder: str) -> _Call:
        return _Call("list_files", {"folder": folder}, lambda: tools.list_files(self._project, folder, self._rng))

    def _search(self, words: str) -> _Call:
        return _Call("search", {"words": words}, lambda: tools.search(self._project, words))

    def _read(self, path: str) -> _Call:
        return _Call("read_file", {"path": path}, lambda: tools.read_file(self._project, path))

    def _run(self, command: str, output: Callable[[], str]) -> _Call:
        return _Call("run", {"command": command}, output)

    def _query(self, sql: str, count: int, month: int) -> _Call:
        return _Call("query", {"sql": sql}, lambda: tools.rows(self._rng, count, month))

    def _edit(self, turn: dict[str, Any], *, anchor: str = "") -> _Call:
        path, function = turn["path"], turn["function"]
        new = turn["new"].replace("{arg}", argument_of(self._project.seed, function)).split("\n")
        behind = anchor or f'    """{function.replace("_", " ").capitalize()} for one'
        arguments = {"path": path, "after": anchor or f"def {function}", "insert": "\n".join(new)}
        replaces = turn.get("replaces", 0)
        return _Call("edit_file", arguments, lambda: self._project.edit(path, behind, new, replaces=replaces))

    def _around(self, path: str) -> list[str]:
        return [path, test_path(path), self._neighbour(path, 1)]

    def _neighbour(self, path: str, step: int) -> str:
        """Another module, the same for the same one: first of its own folder, then of the next."""
        paths = list(MODULES)
        return paths[(paths.index(path) + step) % len(paths)]

    def _failing(self, path: str, function: str, error: str) -> str:
        return tools.tests_fail(self._project, path, function, error, rng=self._rng, count=self._tests)

    def _kills(self, turn: dict[str, Any], day: str) -> list[str]:
        """What the kernel says while plans are cached for ever."""
        if turn["function"] != "remember_plan":
            self._memory_mb = 139
            return []
        self._memory_mb = 497
        times = ("02:14:09", "03:40:31", "05:02:57")
        return [f"{day} {time} quay-1 kernel: quayside: out of memory, 512 MB reached, killed" for time in times]

    def _commit(self, turn: dict[str, Any]) -> None:
        self._commits.append(f"{turn['path'].split('/')[-1].split('.')[0]}: {turn['function'].replace('_', ' ')}")
        show = self._run("git log --oneline -n 12", lambda: tools.git_log(self._rng, self._commits[-12:]))
        self._work("I commit on feat/berth-rules and do not push.", show)

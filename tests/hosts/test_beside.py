"""The comparison with the hosts' own compaction: what it counts is what a second, naive count finds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from evals.hosts_beside.__main__ import next_setting
from evals.hosts_beside.arms import ARMS, host_of
from evals.hosts_beside.clock import Clock
from evals.hosts_beside.play import Play, run
from evals.hosts_beside.reader import Reader
from evals.hosts_beside.request_figures import Watch
from evals.hosts_beside.rows import Call, Row, tokens, unpaired
from evals.hosts_beside.session import RULES, make_session
from evals.hosts_beside.table import markdown

TURNS = 12
SETTINGS = {
    "LangChain": 3_000,
    "deepagents": 3_000,
    "ours in LangChain": 4_000,
    "Pydantic AI": 3_000,
    "Pydantic AI in the background": 3_000,
    "ours in Pydantic AI": 4_000,
    "OpenAI": 12,
    "ours in OpenAI Agents": 4_000,
}


class Noted:
    """Everything that an arm sends, in order, with the prompts that were asked by then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, list[Row]]] = []
        self.prompts: list[int] = []  # of each request, the turn
        self.summary_turns: list[int] = []
        self._turn = 0
        for name in ("begin", "request", "summary"):
            monkeypatch.setattr(Watch, name, self._noting(name, getattr(Watch, name)))

    def _noting(self, name: str, method: Any) -> Any:
        def noted(watch: Watch, *given: Any) -> None:
            if name == "begin":
                self._turn = given[0]
            else:
                (self.prompts if name == "request" else self.summary_turns).append(self._turn)
                self.sent.append((name, list(given[0])))
            method(watch, *given)

        return noted

    def texts(self, name: str) -> list[str]:
        return [_text(rows) for kind, rows in self.sent if kind == name]


def _text(rows: list[Row]) -> str:
    written = []
    for row in rows:
        written.append(f"<{row.role} {row.answers}>\n{row.text}")
        written += [f"\n[{call.id}] read({call.path})" for call in row.calls]
        written.append("\n")
    return "".join(written)


def _cached(sent: list[tuple[str, list[Row]]], name: str) -> int:
    """Tokens of whole blocks that a request shares with any before it."""
    found, before = 0, list[str]()
    for kind, rows in sent:
        text = _text(rows)
        ends = [end for end in range(512, len(text) + 1, 512) if any(other[:end] == text[:end] for other in before)]
        if kind == name:
            found += max(ends, default=0) // 4
        before.append(text)
    return found


@pytest.mark.parametrize("arm", ARMS)
def test_what_an_arm_waits_and_pays_and_loses_is_what_a_naive_count_finds(
    arm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = _host(arm)
    noted = Noted(monkeypatch)
    figures = asyncio.run(run(Play(arm, SETTINGS[arm], TURNS), host, tmp_path))
    views = noted.texts("request")
    sizes = [-(-len(text) // 4) for text in views]
    assert figures["requests"] == len(views) == sum(len(turn.replies) for turn in make_session(TURNS).turns)
    assert figures["mean_view"] == round(sum(sizes) / len(sizes))
    assert figures["largest_view"] == max(sizes)
    assert figures["view_cached"] == _cached(noted.sent, "request")
    assert figures["view_uncached"] == sum(sizes) - figures["view_cached"]
    assert figures["summaries"] == len(noted.texts("summary")) > 0
    assert figures["read_cached"] == _cached(noted.sent, "summary")
    assert figures["unpaired"] == 0
    if arm.startswith("ours"):
        assert figures["turns_waited"] == figures["waited"] == 0
    elif "background" not in arm:  # each summary is waited for, in the turn that asked for it
        assert (figures["turns_waited"], figures["waited"]) == (len(set(noted.summary_turns)), len(noted.summary_turns))
    facts = make_session(TURNS).facts
    assert figures["kept"] == {
        kind: [sum(f.value in views[-1] for f in facts if f.kind == kind), sum(f.kind == kind for f in facts)]
        for kind in figures["kept"]
    }
    due = [(rule, text) for turn, text in zip(noted.prompts, views, strict=True) for rule in _rules_by(facts, turn)]
    assert figures["rules_due"] == len(due)
    assert figures["rules_missing"] == sum(rule not in text for rule, text in due)
    assert arm in markdown([{**figures, "searched": "", "versions": {}}])


def _rules_by(facts: list[Any], turn: int) -> list[str]:
    return [fact.line[:-1] for fact in facts if fact.line in RULES and fact.turn <= turn]


def _host(arm: str) -> Any:
    for package in ARMS[arm].packages:
        pytest.importorskip(
            {"openai-agents": "agents", "pydantic-ai-slim": "pydantic_ai"}.get(package, package.replace("-", "_"))
        )
    return host_of(arm)


def test_a_summary_that_is_ready_before_it_is_needed_is_no_wait() -> None:
    async def play(clock: Clock) -> None:
        clock.begin(7)
        behind = asyncio.create_task(clock.sleep(2))
        await asyncio.sleep(0)
        for _ in range(2):
            await clock.step()
        await behind
        assert clock.waits == {}
        late = asyncio.create_task(clock.sleep(3))
        await asyncio.sleep(0)
        await clock.step()
        await late
        clock.begin(None)
        await clock.sleep(5)  # between turns

    with Clock() as clock:
        asyncio.run(play(clock))
    assert clock.waits == {7: 2}


def test_the_reader_repeats_what_was_said_and_no_instruction() -> None:
    session = make_session(TURNS)
    reader = Reader(session.lines(), Watch(session), Clock(), 1)
    decision = next(fact for fact in session.facts if fact.kind == "decision")
    plain = next(line for line in session.lines() if line.startswith("I look at step"))
    rows = f"Summarize below 12345/678.\n<message>{plain}</message>\nAI: {decision.line} and more\n{plain}"
    assert reader.lines_of(rows) == [plain, decision.line]
    assert reader.choose([plain, decision.line], tokens(decision.line) + 1) == decision.line
    reader.rule = "first"
    assert reader.choose([plain, decision.line], 15) == plain
    with pytest.raises(ValueError, match="no line of the session"):
        asyncio.run(reader.summarize([Row("user", "Summarize this.")]))


def test_a_rule_is_kept_where_it_is_quoted_without_its_full_stop() -> None:
    session = make_session(TURNS)
    watch = Watch(session)
    first = next(fact for fact in session.facts if fact.kind == "rule")
    watch.begin(first.turn)
    for text in (f'- must "{first.line[:-1]}"', first.line, first.line[:-2]):
        watch.request([Row("user", text)])
    assert (watch.counts["rules_due"], watch.counts["rules_missing"]) == (3, 1)


def test_the_reader_ranks_rules_then_decisions_and_corrections_then_values_the_newest_first() -> None:
    said = [
        "I look at part 7 now.",
        "From now on, keep it short.",
        "measured: 12345 ms",
        "Decision: the queue stays.",
        "Correction: 54321, not 12345.",
        "The settings are in conf/queue.toml alone.",
        "From now on, ask me first.",
    ]
    session = make_session(TURNS)
    reader = Reader(said, Watch(session), Clock(), 1)
    sent = said[::-1]  # the place in the request is no matter
    best = [said[at] for at in (6, 1, 4, 3, 5, 2, 0)]
    for number in range(1, len(best) + 1):
        limit = sum(tokens(line + "\n") for line in best[:number])
        assert reader.choose(sent, limit) == "\n".join(line for line in sent if line in best[:number])


def test_calls_and_results_that_are_no_pair_are_told() -> None:
    both = Row("assistant", "", (Call("a", "x"), Call("b", "y")))
    answers = [Row("tool", "", answers="a"), Row("tool", "", answers="b")]
    assert not list(unpaired([both, *answers, Row("user", "Go on.")]))
    assert list(unpaired([both, answers[0], Row("user", "Go on."), answers[1]])) == ["b", "b"]
    assert list(unpaired([answers[0], both])) == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("means", "wanted"), [({100: 50}, 161), ({100: 50, 200: 110}, 150), ({100: 50, 160: 70, 200: 110}, 170)]
)
def test_the_search_goes_on_between_the_nearest_runs(means: dict[int, float], wanted: int) -> None:
    assert next_setting(means, 80) == wanted

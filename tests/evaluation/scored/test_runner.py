"""Runs: arms at equal tokens, references that prove the probes, intervals, gates, reports."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path

import anyio
import msgspec
import pytest

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.arms import EQUAL_ARMS, ArmView, Piece
from summarizing_context.evaluation.cases.facts import domain_names
from summarizing_context.evaluation.cases.model import Probe
from summarizing_context.evaluation.cases.sources import read_case
from summarizing_context.evaluation.outcomes import RunOutcome, SessionOutcome, difference, mean_of
from summarizing_context.evaluation.report import HTML, JSON, MARKDOWN, headline, read_run, unequal_views
from summarizing_context.evaluation.report_page import highlighted, write_reports
from summarizing_context.evaluation.runner import Plan, measure_retrieval, run_case
from summarizing_context.evaluation.suites import Gate, baseline_of, check_baseline, check_gates, load_suite
from summarizing_context.settings.values import Settings
from tests.evaluation.scored.building import generated
from tests.house.checkout import ROOT, run_python
from tests.privacy import open_to_others

SMALL = Settings(segment_min=150, segment_target=360, segment_max=600, summary_max_tokens=40)


@cache
def run() -> RunOutcome:
    """A run of one generated session and one with markup."""
    plan = Plan(SMALL)
    markup = read_case(ROOT / "evals" / "data" / "support-broken-import.jsonl", budget=1)
    sessions = [anyio.run(partial(run_case, case, plan)) for case in (generated(), markup)]
    return RunOutcome("test", "<b>claim</b>", [arm.name for arm in plan.chosen()], {}, sessions)


def test_every_arm_gets_the_same_tokens():
    session = run().sessions[0]
    assert set(session.views) >= {arm.name for arm in EQUAL_ARMS}
    assert unequal_views(msgspec.structs.replace(run(), sessions=[session])) == []


@pytest.mark.parametrize(("arm", "share"), [("everything", 1.0), ("evidence", 1.0), ("nothing", 0.0)])
def test_the_references_prove_the_probes(arm: str, share: float):
    of, out_of = run().sessions[0].sums[arm]["used"]
    assert of / out_of == share


def test_the_extractive_summarizer_invents_nothing_here():
    session = run().sessions[0]
    assert [view.unsupported for view in session.views["hierarchical"]] == [[] for _ in session.views["hierarchical"]]


def test_two_runs_write_the_same_bytes(tmp_path: Path):
    again = anyio.run(partial(run_case, generated(), Plan(SMALL)))
    first, second = tmp_path / "first", tmp_path / "second"
    write_reports(run(), first)
    write_reports(msgspec.structs.replace(run(), sessions=[again, run().sessions[1]]), second)
    for name in (JSON, HTML, MARKDOWN):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_report_is_read_back(tmp_path: Path):
    write_reports(run(), tmp_path / "a" / "b", timings={"seconds": 1.0})
    assert read_run(tmp_path / "a" / "b") == run()
    assert open_to_others(tmp_path) == []


def test_something_else_is_no_report(tmp_path: Path):
    (tmp_path / JSON).write_text("[]", encoding="utf8")
    with pytest.raises(TranscriptError, match="eval run"):
        read_run(tmp_path)


def test_the_page_escapes_transcripts_and_names_no_place_outside(tmp_path: Path):
    write_reports(run(), tmp_path)
    page = (tmp_path / HTML).read_text("utf8")
    assert "<script" not in page
    assert "<b>claim</b>" not in page
    assert page.count("</style>") == 1
    assert re.search(r"(?:src|href)=|@import|url\(", page) is None
    assert len(page) < 2_000_000
    assert "&lt;script&gt;" in page.lower()


def test_half_a_character_of_a_transcript_can_be_reported(tmp_path: Path):
    one = run().sessions[0]
    probes = [msgspec.structs.replace(one.probes[0], words="half \ud83d of it"), *one.probes[1:]]
    broken = msgspec.structs.replace(run(), sessions=[msgspec.structs.replace(one, probes=probes)])
    write_reports(broken, tmp_path)
    assert read_run(tmp_path).sessions[0].probes[0].words == "half ? of it"
    assert "half · of it" in (tmp_path / HTML).read_text("utf8")


def test_the_page_shows_what_would_act_on_a_terminal_or_hide_as_dots(tmp_path: Path):
    one = run().sessions[0]
    text = "a\x1b[31m\x9b\u202eb\U000e0041c\u200b\u2066\x07d"
    probes = [msgspec.structs.replace(one.probes[0], question=text, words=text, why=text), *one.probes[1:]]
    hidden = msgspec.structs.replace(one, title=text, probes=probes)
    write_reports(msgspec.structs.replace(run(), suite=text, claim=text, sessions=[hidden]), tmp_path)
    page = (tmp_path / HTML).read_text("utf8")
    assert page.count("a·[31m··b·c···d") >= 5
    assert {char for char in page if not char.isprintable()} == {"\n"}


def test_a_page_stays_small_in_any_script(tmp_path: Path):
    one = run().sessions[0]
    probes = [msgspec.structs.replace(one.probes[0], evidence=[(0, "字" * 400)] * 3, words="字" * 200)] * 900
    write_reports(msgspec.structs.replace(run(), sessions=[msgspec.structs.replace(one, probes=probes)]), tmp_path)
    assert 1_000_000 < (tmp_path / HTML).stat().st_size < 2_000_000


def test_the_words_of_an_answer_are_marked_and_escaped():
    assert highlighted("a <b> B6", ["b6", "<b>"]) == "a <mark>&lt;b&gt;</mark> <mark>B6</mark>"


def session(name: str, **arms: float) -> SessionOutcome:
    sums = {arm: {"used": (value, 1.0)} for arm, value in arms.items()}
    return SessionOutcome(name, name, name, "", "generated", 1, 1, 1, [], sums, {}, [])


def outcome(*sessions: SessionOutcome) -> RunOutcome:
    return RunOutcome("s", "", sorted({arm for one in sessions for arm in one.sums}), {}, list(sessions))


def test_an_interval_is_of_sessions_and_paired():
    ours, theirs = {"a": 0.9, "b": 0.5, "c": 0.2}, {"a": 0.8, "b": 0.4, "c": 0.1}
    mean, margin = mean_of(ours), difference(ours, theirs)
    assert mean is not None
    assert margin is not None
    assert mean.low < mean.mean < mean.high
    assert (round(margin.low, 9), round(margin.high, 9), margin.sessions) == (0.1, 0.1, 3)


def test_the_headline_says_what_is_not_beaten():
    def one(name: str, used: float) -> SessionOutcome:
        sums = {
            "hierarchical": {"used": (used, 1.0), "ordering": (0.0, 1.0), "recall": (0.5, 1.0)},
            "masking": {"used": (0.5, 1.0), "ordering": (0.4, 1.0), "recall": (0.4, 1.0)},
            "tail": {"used": (0.1, 1.0)},
        }
        return msgspec.structs.replace(session(name), sums=sums)

    run = outcome(one("a", 0.4), one("b", 0.6), one("c", 0.5))
    assert headline(run) == [
        "Hindsight retention: hierarchical holds 50.0% [40.0%, 60.0%]; ahead of tail (+0.400); no better than masking "
        "(+0.000).",
        "By kind of question, hierarchical is behind masking in ordering (-0.400).",
    ]


ABOVE = outcome(*(session(name, hierarchical=0.9, tail=0.1, nothing=0.0) for name in "abc"))
GATE = Gate(figure="used", at_least=0.5)


@pytest.mark.parametrize(
    ("found", "gate", "result"),
    [
        (ABOVE, GATE, "passed"),
        (ABOVE, Gate(figure="used", at_least=0.95), "failed"),
        (ABOVE, Gate(figure="used", at_least=0.0), "vacuous"),
        (ABOVE, Gate(figure="stale", at_most=0.0), "nothing to look at"),
        (ABOVE, Gate(figure="used", beats=["tail"], times=2), "passed"),
        (ABOVE, Gate(figure="used", beats=["tail"], times=10), "failed"),
        (ABOVE, Gate(figure="used", at_least=0.5, source="transcript"), "nothing to look at"),
    ],
)
def test_a_gate_is(found: RunOutcome, gate: Gate, result: str):
    assert [checked.result for checked in check_gates(found, [gate])] == [result]


def test_a_figure_below_its_baseline_fails():
    worse = outcome(*(session(name, hierarchical=0.7, tail=0.1) for name in "abc"))
    baseline = baseline_of(ABOVE)
    assert [checked.result for checked in check_baseline(ABOVE, baseline)] == ["passed"]
    assert [checked.result for checked in check_baseline(worse, baseline)] == ["failed"]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "evals" / "suites").glob("*.toml")))
def test_a_suite_of_the_checkout_can_be_read(name: str):
    if name.startswith("tuning"):
        pytest.skip("read by the tuner")
    loaded = load_suite(name, ROOT)
    assert loaded.suite.name == name
    assert loaded.sources() or (loaded.root / loaded.suite.recording / "cases.toml").is_file()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "x"', "claim"),
        ('name = "x"\nclaim = ""\n[[gates]]\nfigure = "beauty"\nat_least = 1', "beauty"),
        ('name = "x"\nclaim = ""\n[[gates]]\nfigure = "used"\nbeats = ["mind"]', "mind"),
        ('name = "x"\nclaim = ""\n[[gates]]\nfigure = "used"', "asks for nothing"),
    ],
)
def test_a_suite_that_is_wrong_is_refused(tmp_path: Path, text: str, words: str):
    (tmp_path / "evals" / "suites").mkdir(parents=True)
    (tmp_path / "evals" / "suites" / "x.toml").write_text(text, encoding="utf8")
    with pytest.raises(SettingsError, match=words):
        load_suite("x", tmp_path)


pytestmark = pytest.mark.anyio

VIEW = ArmView(pieces=(Piece("summary", "It was src/shown.py."),), tokens=9)


class Arm:
    """A view of one node over the first ten messages."""

    def drops(self) -> dict[range, tuple[str, ...]]:
        return {range(10): ("src/named.py",)}

    async def paragraph(self, node: range, tokens: int) -> str:
        return "On this page: src/paged.py"

    async def hits(self, query: str, limit: int) -> list[range]:
        return [range(3, 5)] if query == "where?" else []


def used(value: str, at: int) -> Probe:
    return Probe(id=value, kind="used", cut=20, question="?", literals=(value,), evidence=(at,))


def asked(question: str, at: int) -> Probe:
    return Probe(id=question, kind="recall", cut=20, question=question, literals=("x",), evidence=(at,))


async def test_only_values_that_a_node_covers_and_the_view_leaves_out_are_counted():
    probes = [used(f"src/{name}.py", 2) for name in ("shown", "named", "paged", "lost")] + [used("src/named.py", 15)]
    sums = await measure_retrieval(Arm(), VIEW, probes)
    assert (sums["hinted"], sums["drilled"]) == ((1, 3), (1, 3))


async def test_a_search_has_found_where_a_hit_holds_the_evidence():
    sums = await measure_retrieval(Arm(), VIEW, [asked("where?", 4), asked("where?", 5), asked("who?", 4)])
    assert sums["searched"] == (1, 3)


async def test_a_run_has_these_figures_for_the_reference_arm_alone():
    session = await run_case(generated(), Plan(arms=("tail",)))
    ours, tail = session.sums["hierarchical"], session.sums["tail"]
    assert ours["searched"][0] > 0.5 * ours["searched"][1] > 0
    assert not {"hinted", "drilled", "searched"} & set(tail)


@pytest.mark.parametrize("domain", domain_names())
async def test_the_ledger_is_exact_on_generated_sessions(domain: str):
    session = await run_case(generated(domain, tokens=12_000), Plan(arms=("no-ledger",)))
    ours, without = session.sums["hierarchical"], session.sums["no-ledger"]
    for figure in ("ledger_recall", "ledger_precision", "artifact_recall", "artifact_precision"):
        right, of = ours[figure]
        assert right == of > 0, figure
    assert without["ledger_recall"][0] == 0
    assert without["artifact_recall"] < ours["artifact_recall"]
    assert ours["unsupported"][0] == 0


def test_a_connection_is_refused_where_evals_run():
    script = "import socket; socket.create_connection(('127.0.0.1', 9))"
    done = run_python(["-c", script], env={"PYTHONPATH": str(ROOT / "evals" / "offline")})
    assert "without a network" in done.stdout

"""Runs: arms at equal tokens, references that prove the probes, intervals, gates, reports."""

from __future__ import annotations

import re
from functools import cache, partial
from pathlib import Path

import anyio
import msgspec
import pytest

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.arms import EQUAL_ARMS
from summarizing_context.evaluation.cases.sources import read_case
from summarizing_context.evaluation.gates import Gate, baseline_of, check_baseline, check_gates
from summarizing_context.evaluation.intervals import difference, mean_of
from summarizing_context.evaluation.outcomes import RunOutcome, SessionOutcome
from summarizing_context.evaluation.report.files import HTML, JSON, MARKDOWN, read_run, write_reports
from summarizing_context.evaluation.report.page import highlighted
from summarizing_context.evaluation.report.summary import headline, unequal_views
from summarizing_context.evaluation.runner import Plan, run_case
from summarizing_context.evaluation.suites import load_suite
from summarizing_context.settings.values import Settings
from tests.evaluation.scored.building import generated
from tests.privacy import open_to_others

ROOT = Path(__file__).parents[3]
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

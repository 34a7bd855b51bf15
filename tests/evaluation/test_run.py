"""Runs and reports: what is asked, scores, verdicts, gates, comparisons, the page, and the plug-in for pytest."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from rich.console import Console

from summarizing_context import PromptError, Settings, SettingsError, TranscriptError
from summarizing_context.cli.transcripts import score_tables
from summarizing_context.evaluation import Arm, Cassette, Dataset, Metric, Report, Run
from summarizing_context.evaluation.datasets import cuts_of, hindsight, read_messages
from summarizing_context.evaluation.report import Answer, Asked, Spent, Tuning, in_words
from summarizing_context.evaluation.tune import Trial, read_variants, tune
from summarizing_context.evaluation.views import Text
from summarizing_context.summarizers.prompts import latest
from summarizing_context.testing import ScriptedSummarizer, check_session, default_summary
from tests.cli.commands import write_transcript
from tests.evaluation.sessions import answered, changed, session, value, write
from tests.laws.builders import assistant, call, system, user

pytest_plugins = ["pytester"]
SMALL = Settings(max_tokens=3_000)


def reported(points: dict[str, list[float]], *, laws: int = 0) -> Report:
    """A report of sessions with one question each, by arm the points; the first arm is measured."""
    held = [
        {arm: Answer("said", {"held": one}) for arm, one in zip(points, row, strict=True)}
        for row in zip(*points.values(), strict=True)
    ]
    asked = [Asked(f"s{at}", f"s{at}", "q", "What?", one, ("rule", "fact")[at % 2]) for at, one in enumerate(held)]
    spent = [Spent("s0", next(iter(points)), 1_000, laws={"over_budget_views": laws} if laws else {})]
    return Report("made up", dict.fromkeys(points, "a way"), "held", list(points)[-1], asked, [], spent)


@pytest.mark.parametrize(("jobs", "most", "ended"), [(2, 2, [1]), (0, 1, [])])
def test_sessions_that_ask_a_model_are_measured_together_and_one_that_fails_stops_those_that_have_not_begun_alone(
    tmp_path: Path, monkeypatch, jobs: int, most: int, ended: list[int]
):
    """What the others have asked a model for is paid, and is kept."""
    dataset = Dataset.load(write(tmp_path / "logs", *range(5)))
    under_way, done, is_wrong = list[int](), list[int](), False

    async def measure_log(run: Run, cassette: Any, log: Any) -> dict[str, Any]:
        number = dataset.logs.index(log)
        under_way.append(under_way[-1] + 1 if under_way else 1)
        await anyio.sleep(0.01 if number == 0 else 0.05)
        under_way.append(under_way[-1] - 1)
        if number == 0 and is_wrong:
            raise SettingsError("no room")
        done.append(number)
        return {"left_out": [log.name]}

    monkeypatch.setattr(Run, "measure_log", measure_log)
    arms = [Arm("ours", replace(SMALL, summarizer="openai", model="m"))]
    run = Run(dataset=dataset, arms=arms, cassette=tmp_path / "c.jsonl", jobs=jobs)
    with Cassette(tmp_path / "c.jsonl", "record") as cassette:
        assert run.report(cassette).left_out == [log.name for log in dataset.logs]
        assert max(under_way) == most
        done, is_wrong = [], True
        with pytest.raises(SettingsError, match="no room"):
            run.report(cassette)
    assert done == ended


def test_arms_differ_in_strategy_metrics_may_be_ones_own_and_what_is_asked_is_priced_ahead(tmp_path: Path):
    dataset, kept = Dataset.load(write(tmp_path, 1)), tmp_path / "replies.jsonl"
    arms = [Arm("wide", SMALL), Arm("truncate", replace(SMALL, strategy="truncate")), Arm("tail"), Arm("cliff")]

    own = Metric("found", lambda _, view: float(view.holds("Found")))
    report = Run(dataset=dataset, arms=arms, metrics=[own], baseline="truncate").report()
    assert (report.metric, report.baseline) == ("found", "truncate")
    assert report.ahead("wide") is not None
    tokens = {name: report.figure(name, "tokens") for name in report.arms}
    assert 0 < tokens["wide"] <= 3_000
    assert all(abs(tokens[name] - tokens["wide"]) < 300 for name in ("tail", "cliff"))

    model = replace(SMALL, summarizer="openai", model="gpt-5.5-mini", base_url="http://127.0.0.1:9")
    [price] = Run(dataset=dataset, arms=[Arm("ours", model)], cassette=kept).price()  # nothing is sent
    assert (price.calls > 0, kept.exists()) == (True, False)
    assert Run(dataset=dataset, arms=[Arm("ours", SMALL)]).price() == []
    for arms, said in (
        ([Arm("tail")], "the first arm needs settings"),
        ([Arm("a", SMALL), Arm("a", SMALL)], "two arms have one name"),
        ([Arm("a", model)], "come through a cassette"),
    ):
        with pytest.raises(SettingsError, match=said):
            Run(dataset=dataset, arms=arms)


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ([0.5] * 6, "equal on every question, 6 sessions"),
        ([1.0] * 5, "better by 50.0 points, interval +50.0 to +50.0"),
        ([0.0, 0.1, 0.2, 0.0, 0.1, 0.0], "worse by"),
        ([1.0, 0.0, 1.0, 0.0, 0.5, 0.5], "no sure difference: +0.0 points"),
        ([1.0] * 4, "too few sessions to tell (4, at least 5): +50.0 points"),
    ],
)
def test_the_verdict_says_what_the_interval_allows(ours: list[float], said: str):
    report = reported({"ours": ours, "tail": [0.5] * len(ours)})
    assert said in report.verdict
    assert report.best == "tail"
    has_ends = len(ours) >= 5
    assert ("% held, interval" in report.verdict) is has_ends
    assert ("[" in report.check({"held": 0.1})[0].words) is has_ends


@pytest.mark.parametrize(
    ("points", "said"),  # of a rule, then of a fact
    [
        ([0.5, 1.0], "; better on fact; not better on rule."),
        ([0.45, 1.0], "; better on fact; worse on rule."),
        ([1.0, 1.0], "; better on rule, fact."),
        ([0.5, 0.5], "mine: equal on every question, 12 sessions."),  # all in all no better, it goes without saying
        ([0.2, 0.6, 0.6, 0.6], "; better on fact; lower on rule."),  # no sure difference, neither in all nor of rules
        ([0.4, 0.4], "; worse on rule, fact."),
    ],
)
def test_the_verdict_on_a_prompt_names_where_it_is_not_better(points: list[float], said: str):
    report = reported({"start": [0.5] * 12, "mine": (points * 6)[:12]})
    tuning = Tuning("start", "mine", [], [], [], [], {}, {}, "mine")
    assert msgspec.structs.replace(report, tuning=tuning).verdict.endswith(said)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"held": 70}, "held is a share; for 70 % write held=0.7"),
        ({"held": "much"}, "'held=much'; write it like held=0.6,tokens=10k,laws=0"),
        ({"held": None}, "'held=None'; write it like"),
        ({"laws": -1}, "'laws=-1'; a share is from 0 to 1, other figures from 0 on"),
        ({"right": 0.3}, "no 'right' is measured here; there are held, evidence, laws, tokens, cost"),
        ({"helt": 1}, "no 'helt' is measured here"),
        ("held=0.5,tokens=10%", "'tokens=10%'; write it like"),
        (["held=0.5"], "is measured here"),
    ],
)
def test_bounds_that_bound_nothing_are_refused_in_python_as_by_the_command(bounds: Any, said: str):
    with pytest.raises(SettingsError, match=f"^bounds: .*{re.escape(said)}"):
        reported({"ours": [0.5]}).check(bounds)


def test_questions_that_cancel_out_within_a_session_are_not_told_as_equal():
    old = reported({"ours": [0.0, 1.0] * 5})
    new = reported({"ours": [1.0, 0.0] + [0.0, 1.0] * 4})
    old, new = (msgspec.structs.replace(one, asked=_in_pairs(one)) for one in (old, new))
    (_, _, change, is_worse), *_ = new.compare(old)
    assert (in_words(change), is_worse) == ("no difference on average, 2 of 10 questions changed, 5 sessions", False)
    assert in_words(old.compare(old)[0][2]) == "equal on every question, 5 sessions"


def _in_pairs(report: Report) -> list[Asked]:
    """Its questions, two of each session."""
    named = ((f"s{at // 2}", f"q{at % 2}", one) for at, one in enumerate(report.asked))
    return [msgspec.structs.replace(one, session=session, case=session, id=name) for session, name, one in named]


def test_verdict_terminal_and_page_round_an_interval_in_one_way(tmp_path: Path):
    report = reported({"ours": [0.5625] * 6, "tail": [0.5] * 6})  # ahead by 6.25 points
    page = report.write(tmp_path).read_text("utf8")
    assert report.verdict.endswith("better by 6.2 points, interval +6.2 to +6.2. No law was broken.")
    heads, (ours, _) = report.tables()["Arms"]
    assert dict(zip(heads, ours, strict=True))["ahead of tail"] == ("+6.2", "+6.2 to +6.2")
    assert json.dumps(ours, ensure_ascii=False) in page
    assert "6.3" not in page


@pytest.mark.parametrize(("columns", "has_all"), [(60, False), (80, True)])
def test_a_narrow_terminal_leaves_columns_to_the_page_and_cuts_no_figure(columns: int, has_all: bool, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    told = io.StringIO()
    arms = score_tables(reported({"ours": [1.0, 0.5] * 4, "tail": [0.0, 0.5] * 4}))["Arms"]
    Console(file=told, width=columns).print(arms)
    assert "…" not in told.getvalue()
    assert ("laws" in told.getvalue(), "75.0% (" in told.getvalue()) == (has_all, True)


def test_gates_and_a_comparison_tell_low_scores_broken_laws_and_what_was_not_measured():
    report = reported({"ours": [0.9, 0.8, 0.9, 0.7, 0.8, 0.9], "tail": [0.4] * 6})
    broken = reported({"ours": [0.9, 0.8, 0.9, 0.7, 0.8, 0.9]}, laws=2)
    assert [one.passed for one in broken.check({"held": 0.8, "laws": 2})] == [True, True]
    assert [one.passed for one in broken.check({"held": 0.9, "laws": 0, "tokens": 9})] == [False, False, False]
    assert report.check({"evidence": 1})[0].words == "nothing to look at"
    assert report.check("held=70%, tokens=10k") == report.check({"held": "70%", "tokens": 10_000})
    worse = reported({"ours": [0.5, 0.6, 0.5, 0.5, 0.6, 0.6]})
    for new, told in ((report, set()), (broken, {"laws"}), (worse, {"held"})):
        assert {what for _, what, _, is_worse in new.compare(report) if is_worse} == told
    few = reported({"ours": [0.0, 0.0]}).compare(reported({"ours": [1.0, 1.0]}))
    assert not any(is_worse for *_, is_worse in few)  # two sessions tell nothing surely
    with pytest.raises(SettingsError, match="share no question"):
        report.compare(reported({"other": [0.1]}))


def test_a_report_is_read_back_as_it_was_written_and_its_page_is_whole(tmp_path: Path):
    report = reported({"ours": [1.0] * 6, "tail": [0.5] * 6})
    evil = msgspec.structs.replace(report.asked[0], question="</script><b>\x1b[31mhere", gold="a\u2028b")
    report = msgspec.structs.replace(report, asked=[evil, *report.asked[1:]])
    page = report.write(tmp_path / "out").read_text("utf8")
    assert Report.read(tmp_path / "out") == report
    assert page.count("</script>") == 2
    assert "\x1b" not in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert data["figures"]["verdict"] == report.verdict
    with pytest.raises(SettingsError, match="is not the report of a run"):
        Report.read(tmp_path)


def test_recorded_answers_are_scored_by_their_marks_and_a_missing_reply_is_told(tmp_path: Path):
    recording = answered(tmp_path)
    dataset = Dataset.load(tmp_path / "data")
    assert max(len(repr(recording)), len(repr(dataset))) < 300
    report = Run(dataset=dataset).report()
    assert (report.metric, list(report.arms), report.baseline) == ("right", ["ours", "compact"], "compact")
    assert ({one.reading for one in report.views}, report.missing) == ({"this view"}, 0)
    assert (sum(report.points("ours").values()), report.points("ours", "", "absent") != {}) == (4, True)
    assert next(one for one in report.asked if one.id == "q1").answers["ours"].said == "<b>8080</b>"
    assert report.made_by["summaries"] == report.made_by["marks"] == ["a person, by hand (1)"]
    # What is partly right counts half; cases of one session count as one.
    changed(recording, ": 2", ": 1")
    half = Run(dataset=dataset).report()
    assert sum(half.points("ours").values()) == 2
    assert (half.figure("ours", "wrong"), half.score("ours").sessions) == (0, 1)
    assert recording.cases[0].session == "heating"
    # Views of other summaries were not read; where a summary is missing, there is no view.
    changed(recording, "read_celsius divided by 100", "it divided by 100")
    other = Run(dataset=dataset).report()
    assert ({one.reading for one in other.views}, other.missing, other.metric) == ({"not read"}, 2, "evidence")
    recording.cassette.write_bytes(b"")
    none = Run(dataset=dataset).report()
    assert {one.reading for one in none.views} == {"no view"}
    assert none.missing > 2
    (tmp_path / "data" / "logs" / "heating.jsonl").unlink()
    with pytest.raises(TranscriptError, match=re.escape(f"bring it back ({recording.cases[0].source}), or ask again")):
        Run(dataset=dataset).report()


def test_what_is_left_out_has_its_reason_and_what_a_reply_made_up_is_counted_for_its_prompt(tmp_path: Path):
    wide = [system("word " * 4_000), *[user("x" * 900)] * 40, assistant("so it is"), *[user("x" * 900)] * 19]
    for name, log in {"short": [user("Good morning.")], "wide": wide, "session-1": session(1)}.items():
        write_transcript(tmp_path / f"{name}.jsonl", log)
    seldom = ScriptedSummarizer(lambda job: "I cannot help with that." if job.start < 20 else default_summary(job))
    settings = replace(SMALL, attempts=1)
    invents = ScriptedSummarizer(lambda job: f"{default_summary(job)}\n- The port of the server is 48213.")
    says = {"often": ScriptedSummarizer(), "seldom": seldom, "invents": invents}
    report = Run(Dataset.load(tmp_path), [Arm(name, settings, model) for name, model in says.items()]).report()
    of_session = next(line for line in report.notes if not line.startswith("wide, "))  # measured all the same
    of_short, *of_wide = sorted(report.left_out)
    assert of_short == "short: nothing is asked about it in a budget of 3,000; take a smaller one or a longer log"
    few = r", often: 3,000 tokens are no room for a view, of which system rows take \d,\d{3}; take a larger budget$"
    assert any(re.search(few, line) for line in of_wide), of_wide
    assert not any("smaller" in line for line in of_wide)
    # Extracts in the place of refused replies are no summaries of a prompt; where no model is asked, of no reply.
    assert of_session.startswith("session-1, seldom: ")
    assert "replies cannot serve as summaries (SummarizerRefused: the model declined" in of_session
    assert not any(start < 20 for one in report.spent if one.arm == "seldom" for start, _, _ in one.summaries)
    assert {one.session for one in report.asked} == {"session-1"}
    dropped = {name: one["dropped"] for name, one in report.document()["arms"].items()}
    assert (dropped["often"], dropped["invents"] > 0) == (0, True)
    assert not any("48213" in text for one in report.spent for _, _, text in one.summaries)
    long, truncating = Dataset.load(write(tmp_path / "long", 1, turns=180)), replace(SMALL, strategy="truncate")
    report = Run(dataset=long, arms=[Arm("ours", truncating)]).report()
    assert report.left_out == report.notes == []


def test_where_prompts_are_equal_no_summary_changes_and_what_cannot_be_measured_has_its_reason(tmp_path: Path):
    lines = "\n".join(f"The port of server {at} is {40_000 + at}." for at in range(1_500))  # summarized in parts
    write_transcript(tmp_path / "long.jsonl", [user("Read the list."), assistant(lines), *session(1)])
    (tmp_path / "same.md").write_text(latest("segment").text, encoding="utf8")
    (tmp_path / "no text.md").write_bytes(b"\xff\xfe")
    with pytest.raises(PromptError, match=r"no text\.md cannot be read as a prompt"):
        read_variants([tmp_path / "no text.md"])
    start, same = read_variants([tmp_path / "same.md"])
    named = replace(SMALL, summarizer="openai", model="m", max_tokens=6_000)

    def tuned(budget: int) -> Report:
        settings, replies = replace(named, max_tokens=budget), Cassette(tmp_path / "c.jsonl", "forecast")
        return tune(Trial(Dataset.load(tmp_path / "long.jsonl"), start, settings, replies), [same])

    report = tuned(6_000)
    places = [(first, stop) for first, stop, _ in report.spent[0].summaries]
    assert (len(places) > len(set(places)), report.tuning and report.tuning.pairs) == (True, [])
    with pytest.raises(SettingsError, match="tokens of the longest log fit into the budget; take a smaller one"):
        tuned(900_000)


def test_hindsight_asks_for_values_that_were_read_before_a_cut_and_used_after_it():
    rows = session(3)
    cut = cuts_of(rows)[1]
    probes = hindsight(read_messages(rows), cut, 1_000)
    assert probes
    for probe in probes:
        used_at = int(probe.question.split()[2])
        assert max(probe.evidence) < cut <= used_at
        assert probe.values[0] in json.dumps(rows[used_at])
        assert any(probe.values[0] in json.dumps(rows[at]) for at in probe.evidence)
    again = [*rows[:cut], user(" ".join(value(3, n) for n in range(40))), *rows[cut:]]
    for log, newest in ((rows, 1_000_000), (again, 1_000)):  # the newest part is everything, or holds it once more
        assert hindsight(read_messages(log), cut, newest) == []
    waiting = call(
        "anthropic", ("w", "shell", {"timeout": 120_000, "mode": "files_with_names"})
    )  # limits, options: no view has to hold them
    assert [probe.values for probe in hindsight(read_messages([waiting, *rows, waiting]), cut + 1, 1_000)] == [
        probe.values for probe in probes
    ]


def test_an_excerpt_is_told_as_it_was_written_in_whole_words():
    text = Text(["The Port of Gate B is 8379, as said.", "Nothing else follows, or hardly any of it. " * 4])
    assert text.excerpt("8379").startswith("The Port of Gate B is 8379, as said. Nothing")
    assert text.excerpt("8379").endswith(" …")
    assert text.excerpt("837") == ""


def test_locomo_gives_probes_for_answers_that_stand_word_for_word(tmp_path: Path):
    talk = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "I adopted Rex on Monday."},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "How nice. " + "So much to tell. " * 40},
    ]
    asked = [
        {"question": "Whom did Ann adopt?", "answer": "Rex", "evidence": ["D1:1"], "category": 4},
        {"question": "How many?", "answer": 7, "evidence": ["D1:1; D9:9"], "category": 2},
        {"question": "Who is Zoe?", "answer": None, "evidence": [], "category": 5},
    ]
    spoken = {"speaker_a": "Ann", "session_1_date_time": "8 May", "session_1": talk}
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": spoken, "qa": asked}]), encoding="utf8")
    dataset = Dataset.load(f"locomo:{path}")
    messages = [*dataset.logs[0].read()]
    ((_, questions),) = dataset.logs[0].ask(messages, 180)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert [(one.values, one.evidence) for one in questions] == [(["Rex"], [0])]
    report = Run(dataset=dataset, arms=[Arm("ours", Settings(max_tokens=180))]).report()
    assert [one.gold for one in report.asked] == ["Rex"]


TESTS = """
pytest_plugins = ["summarizing_context.testing"]

def test_what_the_session_has_to_answer(session_check):
    check = session_check({log!r}, budget=3_000)
    assert check.tokens <= 3_000
    check.keeps_the_laws()
    check.answers("src/area_1/part_23.py")
    check.answers("src/area_9/part_1.py", "src/area_1/part_23.py")
"""


def test_a_session_in_a_budget_answers_facts_or_the_test_names_them(pytester: pytest.Pytester, tmp_path: Path):
    """A team's own test says what a session in a budget has to answer."""
    log = write(tmp_path, 1) / "session-1.jsonl"
    pytester.makepyfile(TESTS.format(log=str(log)))
    ran = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(["*lacks *src/area_9/part_1.py*"])
    with pytest.raises(SettingsError, match=r"budget = 500: \d+ views of this session do not fit; take a larger"):
        check_session([system("word " * 1_000), *session(1)], budget=500)  # it has no view that keeps a law
    with pytest.raises(SettingsError, match="budget: name the tokens of a view"):
        check_session(log)
    assert check_session(log, settings=Settings(max_tokens=3_000, prompts=tmp_path)).budget == 3_000

"""Tuning: split, search, resuming, judging on held-out sessions, reports, and what is written of the winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import msgspec
import pytest

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.sessions import Recipe
from summarizing_context.evaluation.cases.sources import Generated, Written
from summarizing_context.evaluation.outcomes import recovered
from summarizing_context.evaluation.tuning.report import HTML, page, write_reports, write_winner
from summarizing_context.evaluation.tuning.trials import Pair, SessionScore
from summarizing_context.evaluation.tuning.tuner import FILE, TuneOutcome, TuneTask, identity, split_sessions, tune
from summarizing_context.evaluation.tuning.variants import (
    CoordinateSearch,
    Grid,
    Optimizer,
    Variant,
    axes,
    is_better,
    stepped,
)
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.extractive.parameters import (
    SHIPPED,
    ExtractiveParameters,
    bounds_of,
    load_parameters,
    read_parameters,
)
from summarizing_context.summarizers.prompts import latest, load
from tests.privacy import open_to_others

SMALL = Settings(segment_min=200, segment_target=540, segment_max=900, summary_max_tokens=60)
SOURCES = [
    Generated(Recipe(domain=domain, seed=seed, tokens=5_000, budget=1_200, cuts=(0.9,)))
    for domain in ("software", "travel")
    for seed in (7, 8)
]
WORSE = Variant(name="<script>worse</script>", parameters=SHIPPED.with_figures({("facts", "most"): 1}))


def task(folder: Path, optimizer: Optimizer, **changes: object) -> TuneTask:
    made = TuneTask(
        name="tiny",
        claim="A <b>claim</b>.",
        sources=SOURCES,
        settings=SMALL,
        start=Variant(name="start", parameters=read_parameters({"leaf": {"facts": 0, "done": 0}}, "start")),
        optimizer=optimizer,
        folder=folder,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def height(parameters: ExtractiveParameters) -> float:
    return -abs(parameters.leaf.facts - 60) - abs(parameters.facts.lines - 20)


class Hill:
    """A trial whose worth is known: how near two figures are to a summit."""

    sessions = 1

    def __init__(self) -> None:
        self.asked: list[ExtractiveParameters] = []
        self.taken = SHIPPED

    def quality_of(self, variant: Variant) -> float:
        return height(variant.parameters)

    def scores(self, variant: Variant) -> Sequence[SessionScore]:
        self.asked.append(variant.parameters)
        sums = {"used": (1_000 + height(variant.parameters), 1_000.0)}
        return [SessionScore(name, sums, 100, 10, 1) for name in "ab"]

    def accept(self, variant: Variant) -> None:
        self.taken = variant.parameters


def test_the_search_climbs_to_the_summit_by_its_seed():
    one, same, other = Hill(), Hill(), Hill()
    start = Variant(name="start", parameters=SHIPPED.with_figures({("leaf", "facts"): 1}))
    for hill, seed in ((one, 1), (same, 1), (other, 2)):
        CoordinateSearch(seed).run(start, hill)
        best = hill.taken
        assert abs(best.leaf.facts - 60) <= 4
        assert best.facts.lines == 20
    assert one.asked == same.asked != other.asked


@pytest.mark.parametrize(
    ("gains", "better"),
    [
        ([0.1, 0.1, 0.1], True),
        ([0.3, 0, 0], False),
        ([0.1, 0.1, -0.1], False),
        ([0, 0], False),
        ([0.1], True),
        ([], False),
    ],
)
def test_a_gain_counts_that_is_more_than_one_sessions_luck(gains: list[float], better: bool):
    before = {str(at): 0.5 for at in range(len(gains))}
    after = {str(at): 0.5 + gain for at, gain in enumerate(gains)}
    assert is_better(after, before) is better


def test_every_step_stays_within_the_bounds_and_changes_one_figure():
    for round in range(4):
        for axis in axes(SHIPPED):
            found, steps = SHIPPED, 0
            while (further := stepped(found, axis, round)) is not None:
                low, high = bounds_of(axis.table, axis.name)
                before, after = (getattr(getattr(one, axis.table), axis.name) for one in (found, further))
                assert low <= after <= high
                assert (after > before) == axis.up
                found, steps = further, steps + 1
            assert 0 < steps < 60 or not axis.up


def test_sessions_are_split_whole_and_each_kind_evenly():
    sources = [
        *(replace(one, recipe=replace(one.recipe, budget=budget)) for one in SOURCES for budget in (1_000, 2_000)),
        *(Written(Path("logs") / f"{name}.jsonl", 8_000) for name in "abcde"),
    ]
    split = split_sessions(sources, seed=3)
    train, held_out = ({identity(source) for source in side} for side in split)
    assert not train & held_out
    assert len(train) + len(held_out) == 9
    assert {kind for kind, _ in train} == {kind for kind, _ in held_out} == {"software", "travel", "logs"}
    assert split == split_sessions(sources, seed=3)
    assert {split_sessions(sources, seed)[0] == split.train for seed in range(8)} == {True, False}
    with pytest.raises(SettingsError, match="at least two sessions"):
        split_sessions(sources[:2], seed=0)


def test_what_was_regained_is_a_share_of_a_way_that_is_surely_there():
    start, goal = {"a": 0.1, "b": 0.2, "c": 0.3}, {"a": 0.3, "b": 0.4, "c": 0.5}
    half = recovered({"a": 0.2, "b": 0.3, "c": 0.4}, start, goal)
    assert half is not None
    assert half.mean == pytest.approx(0.5)
    assert recovered(goal, start, {"a": 0.1, "b": 0.4, "c": 0.3}) is None
    assert recovered(goal, start, start) is None


def test_an_interrupted_run_goes_on_and_reports_the_same_bytes(tmp_path: Path):
    few = {"evaluations": 4, "sources": SOURCES[::2]}
    whole, _ = tune(task(tmp_path / "whole", CoordinateSearch(5), **few))
    write_reports(whole, tmp_path / "whole")
    tried: list[int] = []

    def interrupt(number: int, variant: Variant, quality_of: float) -> None:
        tried.append(number)
        if number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(task(tmp_path / "parts", CoordinateSearch(5), **few), interrupt)
    file = tmp_path / "parts" / FILE
    kept = file.read_bytes()
    file.write_bytes(kept + b'{"variant":"half a li')
    again, _ = tune(task(tmp_path / "parts", CoordinateSearch(5), **few))
    write_reports(again, tmp_path / "parts")
    assert open_to_others(tmp_path) == []
    assert file.read_bytes().startswith(kept)
    for path in (tmp_path / "whole").glob("tune.*"):
        assert path.read_bytes() == (tmp_path / "parts" / path.name).read_bytes()
    assert file.read_bytes() == (tmp_path / "whole" / FILE).read_bytes()
    sides = [b'"side":"validation"' in line for line in file.read_bytes().splitlines()[1:]]
    assert sides.index(True) >= 4  # the held-out sessions were not looked at before the search was over
    assert str(tmp_path) not in (tmp_path / "whole" / HTML).read_text("utf8")
    with pytest.raises(SettingsError, match="other sessions or settings"):
        tune(task(tmp_path / "parts", CoordinateSearch(5), seed=1))


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[TuneOutcome, Variant]:
    return tune(task(tmp_path_factory.mktemp("grid"), Grid([WORSE, Variant(name="shipped")]), wanted=0.8))


def test_a_grid_tries_every_variant_on_both_sides(judged: tuple[TuneOutcome, Variant]):
    run, winner = judged
    assert [tried.name for tried in run.tried] == ["start", WORSE.name, "shipped"]
    assert all(tried.validation is not None for tried in run.tried)
    assert run.tried[run.winner].train.quality.mean == max(tried.train.quality.mean for tried in run.tried)
    assert run.tried[run.winner].key == winner.key
    assert {len(names) for names in run.sessions.values()} == {2}
    tokens = [tried.validation.view_tokens for tried in run.tried if tried.validation]
    assert max(tokens) <= 1.02 * min(tokens)


def test_what_changed_most_is_shown_side_by_side_before_any_number(judged: tuple[TuneOutcome, Variant]):
    run = judged[0]
    assert run.paired == run.winner != run.start
    assert 1 < len(run.pairs) <= 6
    for pair in run.pairs:
        assert pair.old != pair.new
        assert {*pair.old_keeps, *pair.new_keeps} <= set(pair.needed)
        assert all(value.casefold() in pair.new.casefold() for value in pair.new_keeps)
    html = page(run)
    assert html.index("the start beside the winner") < html.index('<div class="quote">') < html.index('class="numbers"')
    assert escape(run.pairs[0].new.splitlines()[-1]) in html


def test_one_that_lost_is_shown_beside_a_start_that_won(tmp_path: Path):
    least = replace(WORSE, parameters=read_parameters({"leaf": {"facts": 0, "done": 0}}, "start"))
    run, _ = tune(task(tmp_path, Grid([least]), start=WORSE))
    assert run.winner == run.start
    assert run.paired != run.start
    assert run.pairs
    assert "&lt;script&gt;worse&lt;/script&gt;, which lost" in page(run)


def test_a_pair_names_what_is_kept_and_what_is_dropped():
    values = [f"v{number}" for number in range(12)]
    pair = Pair("s", 3, 9, "old", "new", values, values[:2], [])
    assert pair.title == "s, messages 3 to 8"
    assert pair.kept(pair.old_keeps).startswith("keeps 2 of 12 values that are needed later: v0, v1; drops v2, ")
    assert pair.kept([]).endswith("v7 and 4 more")
    assert msgspec.structs.replace(pair, needed=[]).kept([]) == "no value of these messages is needed later"


def test_the_page_tells_both_sides_apart_and_escapes_what_it_shows(judged: tuple[TuneOutcome, Variant]):
    html = page(msgspec.structs.replace(judged[0], claim="a\x1b[31m\u202e"))
    assert "a·[31m·" in html
    html = page(judged[0])
    assert "<th>tuned on</th><th>held out</th>" in html
    assert "&lt;script&gt;worse" in html
    assert "<script" not in html
    assert "<b>claim" not in html
    assert "://" not in html


def test_the_winner_is_written_as_a_new_file_each_time(judged: tuple[TuneOutcome, Variant], tmp_path: Path):
    run = judged[0]
    (first,) = write_winner(run, WORSE, tmp_path)
    assert load_parameters(first) == WORSE.parameters
    assert write_winner(run, WORSE, tmp_path) == [first]
    other = replace(WORSE, parameters=SHIPPED.with_figures({("facts", "most"): 2}))
    (second,) = write_winner(run, other, tmp_path)
    assert (first.name, second.name) == ("extractive.toml", "extractive-v2.toml")
    assert load_parameters(first) == WORSE.parameters


def test_a_prompt_that_wins_becomes_the_next_version(judged: tuple[TuneOutcome, Variant], tmp_path: Path):
    shipped = latest("segment")
    better = replace(shipped, text=shipped.text + "\n- Be exact.")
    for text, version in ((better.text, shipped.version + 1), (better.text + "!", shipped.version + 2)):
        variant = Variant(name="better", prompts=(replace(better, text=text),))
        (file,) = write_winner(judged[0], variant, tmp_path)
        assert write_winner(judged[0], variant, tmp_path) == [file]
        assert file == tmp_path / "segment" / f"v{version}.md"
        assert load(f"segment/v{version}", root=tmp_path).text == text


def test_a_budget_of_seconds_stops_before_the_next_trial(tmp_path: Path):
    run, winner = tune(task(tmp_path, CoordinateSearch(), seconds=-1.0, start=Variant(name="start")), lambda *_: None)
    assert winner.name == "start"
    assert "run it again to go on" in run.stopped

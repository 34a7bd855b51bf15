"""The extractive summarizer's figures: the shipped ones change nothing, a file of a user's own does."""

from __future__ import annotations

import hashlib
from pathlib import Path

import anyio
import pytest

from summarizing_context.assembly import recipe_of
from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.cases.sessions import Recipe, generate_case
from summarizing_context.evaluation.strategies import open_arm
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.extractive.parameters import (
    SHIPPED,
    load_parameters,
    read_parameters,
    write_parameters,
)
from summarizing_context.summarizers.extractive.summarizer import RECIPE, ExtractiveSummarizer

# Hashes of what a header shows of summaries. Where these say something else, the recipe needs a new name.
HEADERS = {
    "software": "b7d223d5a163bd43582771bc",
    "travel": "32e5f0b5fc2eb9bfc5673dc4",
    "data": "60c1c7126c0ca7b0fd9cc0fe",
}


def header(domain: str, parameters: Path | None = None) -> str:
    case = generate_case(Recipe(domain=domain, seed=7, tokens=16_000, budget=2_000, cuts=(0.9,)))
    settings = Settings(
        segment_min=300,
        segment_target=900,
        segment_max=1_800,
        summary_max_tokens=100,
        extractive_parameters=parameters,
    )

    async def look() -> str:
        async with open_arm(settings, case) as arm:
            await arm.feed(case.cuts[0].at)
            view = await arm.view(2_500)
        assert view is not None
        assert max(node.passes for node in view.nodes) > 1  # rollups are in it
        return "\n".join(view.summaries)

    return anyio.run(look)


@pytest.mark.parametrize("domain", HEADERS)
def test_the_shipped_figures_give_the_summaries_they_always_gave(domain: str):
    assert hashlib.sha256(header(domain).encode()).hexdigest()[:24] == HEADERS[domain]


def test_a_file_of_other_figures_gives_other_summaries_under_another_recipe(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text("[leaf]\nfacts = 90\n[facts]\nshare = 0\n", encoding="utf8")
    assert header("software", file) != header("software")
    assert recipe_of(Settings(extractive_parameters=file)).segment != recipe_of(Settings()).segment


def test_a_written_file_reads_as_the_same_figures(tmp_path: Path):
    tuned = SHIPPED.with_figures({("leaf", "facts"): 33, ("facts", "lines"): 0, ("leaf", "intent"): 1})
    file = tmp_path / "tuned.toml"
    file.write_text(write_parameters(tuned, about="Tuned.\nTwice."), encoding="utf8")
    assert load_parameters(file) == tuned
    assert "facts = 33  # shipped: 40" in file.read_text(encoding="utf8")
    assert file.read_text(encoding="utf8").startswith("# Tuned.\n# Twice.\n")


def test_a_file_that_says_nothing_new_keeps_the_recipe(tmp_path: Path):
    file = tmp_path / "same.toml"
    file.write_text(write_parameters(SHIPPED), encoding="utf8")
    assert ExtractiveSummarizer(count=len, parameters=load_parameters(file)).recipe == RECIPE
    assert recipe_of(Settings(extractive_parameters=file)).segment == recipe_of(Settings()).segment


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"leaves": {}}, "unknown table 'leaves'; did you mean leaf"),
        ({"leaf": 3}, "unknown table 'leaf'"),
        ({"leaf": {"fact": 3}}, "did you mean facts"),
        ({"leaf": {"facts": 101}}, "from 0 to 100"),
        ({"leaf": {"facts": 3.0}}, "a whole number"),
        ({"leaf": {"facts": True}}, "a whole number"),
        ({"facts": {"diversity": 64}}, "from 65 to 1,000"),
        ({"weights": {"result": 9}}, "unknown table 'weights'"),
    ],
)
def test_figures_that_cannot_be_are_refused_with_their_place(tables: dict[str, object], said: str):
    with pytest.raises(SettingsError, match=said) as refusal:
        read_parameters(tables, "mine.toml")
    assert "mine.toml: " in str(refusal.value)


@pytest.mark.parametrize("content", [None, "leaf = ", "\xff"])
def test_a_file_that_cannot_be_read_is_a_settings_error(tmp_path: Path, content: str | None):
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_text(content, encoding="latin-1")
    with pytest.raises(SettingsError, match="cannot be read"):
        recipe_of(Settings(extractive_parameters=file))


@pytest.mark.parametrize("figures", [{("facts", "most"): 1}, {("facts", "pool"): 1}, {("room", "strict"): 0}])
def test_figures_at_their_least_still_give_a_summary(figures: dict[tuple[str, str], int], tmp_path: Path):
    file = tmp_path / "least.toml"
    file.write_text(write_parameters(SHIPPED.with_figures(figures)), encoding="utf8")
    assert header("data", file)

"""Suites: small TOML files that say which cases are run, at what budget, and which gates decide.

They stand in `evals/suites` of a checkout; the package itself carries none.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.answering.models import summarizes_by_model
from summarizing_context.evaluation.answering.plan import ARMS, Asking, Chat, Provider, Tape, check_asking
from summarizing_context.evaluation.arms.table import arms
from summarizing_context.evaluation.cases.generator.planting import domain_names
from summarizing_context.evaluation.cases.generator.sessions import Recipe
from summarizing_context.evaluation.cases.model import KINDS
from summarizing_context.evaluation.cases.sources import CaseSource, Generated, folder_sources
from summarizing_context.evaluation.scoring.figures import FIGURES
from summarizing_context.settings.values import Settings

FOLDER = Path("evals") / "suites"

BASELINES = Path("evals") / "baselines"

CASSETTES = Path("evals") / "cassettes"


class Generate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sessions that the generator writes: every domain with every seed."""

    seeds: list[int]
    tokens: int
    budgets: list[int]  # each session is run at every one
    domains: list[str] = []  # all of them if none is named
    cuts: tuple[float, ...] = (0.5, 0.75, 0.95)


class Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Transcripts of a folder, seen from the checkout."""

    folder: str
    budget: int = 8_000


class Gate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a figure of one arm must reach; `below` and `above` are hard, `beats` compares with other arms."""

    figure: str
    arm: str = "hierarchical"
    at_least: float | None = None
    at_most: float | None = None
    beats: list[str] = []  # outside of the interval of the difference
    times: float = 1.0  # so many times what the others have
    source: str = ""  # only sessions of this source


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who reads and who judges, in a suite that has a model answer its probes from views."""

    model: str
    provider: Provider = "openai"
    judge_model: str | None = None  # the reader's if none is named
    judge_provider: Provider | None = None
    replicates: int = 3
    arms: tuple[str, ...] = ARMS
    kinds: tuple[str, ...] = KINDS
    probes: int | None = None  # of one cut; all of them if not told

    def asking(self) -> Asking:
        """The same as a plan. Raises `SettingsError`."""
        judge = Chat(provider=self.judge_provider or self.provider, model=self.judge_model or self.model)
        asking = Asking(
            reader=Chat(provider=self.provider, model=self.model),
            judge=judge,
            replicates=self.replicates,
            arms=self.arms,
            kinds=self.kinds,
            most=self.probes,
        )
        return check_asking(asking, [arm.name for arm in arms()])


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a suite file says."""

    name: str
    claim: str
    generate: list[Generate] = []
    read: list[Read] = []
    gates: list[Gate] = []
    settings: dict[str, Any] = {}
    model: Model | None = None
    start: dict[str, dict[str, int]] = {}  # for `tune`: figures of the extractive summarizer to begin with
    recovers: float = 0.0  # for `tune`: share of the way from the start to the shipped figures that must be regained


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite, and the checkout that it stands in."""

    suite: Suite
    root: Path

    @property
    def baseline(self) -> Path:
        return self.root / BASELINES / f"{self.suite.name}.json"

    @property
    def cassette(self) -> Path:
        return self.root / CASSETTES / f"{self.suite.name}.jsonl"

    @property
    def tape(self) -> Tape | None:
        """Where the suite's models speak; None if it asks none."""
        asking = self.suite.model.asking() if self.suite.model is not None else None
        return Tape(self.cassette, asking) if asking is not None or summarizes_by_model(self.settings()) else None

    def settings(self) -> Settings:
        return Settings.from_mapping(self.suite.settings)

    def sources(self) -> list[CaseSource]:
        """All cases, in the order of the file."""
        found: list[CaseSource] = []
        for wanted in self.suite.generate:
            for domain, seed, budget in product(wanted.domains or domain_names(), wanted.seeds, wanted.budgets):
                recipe = Recipe(domain=domain, seed=seed, tokens=wanted.tokens, budget=budget, cuts=wanted.cuts)
                found.append(Generated(recipe))
        for read in self.suite.read:
            found += folder_sources([self.root / read.folder], budget=read.budget)
        return found


def load_suite(name: str, start: Path) -> LoadedSuite:
    """A suite by its name, from the checkout that `start` is in."""
    root = next((folder for folder in (start, *start.parents) if (folder / FOLDER).is_dir()), None)
    if root is None:
        raise SettingsError(
            f"suite {name!r}: named suites stand in {FOLDER.as_posix()} of a checkout, and this is none; "
            "take --cases or --dataset with data of your own"
        )
    path = root / FOLDER / f"{name}.toml"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in (root / FOLDER).glob("*.toml"))) or "none"
        raise SettingsError(f"there is no suite {name!r} in {FOLDER.as_posix()}; there are: {there}")
    try:
        suite = msgspec.convert(tomllib.loads(path.read_text(encoding="utf8")), Suite)
        _check_gates(suite)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{FOLDER.as_posix()}/{path.name}: {error}") from error
    return LoadedSuite(suite, root)


def _check_gates(suite: Suite) -> None:
    known, figures = {arm.name for arm in arms()}, FIGURES.keys()
    listed = ", ".join(sorted(known))
    for gate in suite.gates:
        if gate.figure not in figures:
            raise msgspec.ValidationError(f"a gate names the figure {gate.figure!r}; known are {', '.join(figures)}")
        if strange := {gate.arm, *gate.beats} - known:
            raise msgspec.ValidationError(f"a gate names the arms {sorted(strange)}; known are {listed}")
        if gate.at_least is None and gate.at_most is None and not gate.beats:
            raise msgspec.ValidationError(f"the gate on {gate.figure!r} asks for nothing; give `at_least` or `beats`")

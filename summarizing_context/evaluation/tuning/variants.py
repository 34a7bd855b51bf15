"""What the search may change, and in which steps: every figure of the extractive summarizer, within its bounds.

Pure. The steps know nothing of the shipped figures: a figure is multiplied or divided, first by four, then by
less; from nothing it goes to the least that can be felt.

What is tried: figures of the extractive summarizer, prompts, settings. Values, and the files they are used from.

Writing what has won: a file of figures, or the next version of each prompt. No file that is there is changed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from summarizing_context.errors import PromptError
from summarizing_context.evaluation.tuning.outcome import TuneOutcome
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import make_private_folder, open_private, write_private
from summarizing_context.summarizers.extractive.parameters import (
    SHIPPED,
    ExtractiveParameters,
    bounds_of,
    write_parameters,
)
from summarizing_context.summarizers.prompts import Prompt, names, write_prompt

FACTORS = ((4, 1), (2, 1), (3, 2), (5, 4))  # of the first rounds; the last one of all later rounds too

_FELT = {"leaf": 5, "rollup": 5, "room": 25, "weights": 1, "facts": 1, "ranks": 1, "lengths": 40}


class Axis(NamedTuple):
    """One figure, and one direction."""

    table: str
    name: str
    up: bool


def axes(parameters: ExtractiveParameters) -> list[Axis]:
    """All that can be changed, in a fixed order."""
    named = [(table, name) for table, figures in parameters.tables().items() for name in figures]
    return [Axis(table, name, up) for table, name in named for up in (True, False)]


def stepped(parameters: ExtractiveParameters, axis: Axis, round: int) -> ExtractiveParameters | None:
    """The figures one step along an axis; None where there is no room."""
    low, high = bounds_of(axis.table, axis.name)
    value: int = getattr(getattr(parameters, axis.table), axis.name)
    times, over = FACTORS[min(round, len(FACTORS) - 1)]
    above = value - low  # steps are measured from the least that a figure may be
    if axis.up:
        wanted = low + max(above * times // over, above + 1 if above else _FELT[axis.table])
    else:
        wanted = low + min(above * over // times, above - 1)
        wanted = low if 0 < wanted - low < _FELT[axis.table] // 2 else wanted
    wanted = max(low, min(high, wanted))
    return None if wanted == value else parameters.with_figures({(axis.table, axis.name): wanted})


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One candidate. What it does not name is as shipped."""

    name: str
    parameters: ExtractiveParameters = SHIPPED
    prompts: tuple[Prompt, ...] = ()  # one for each purpose that differs from what is shipped
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Names what the variant does, whatever it is called."""
        prompts = [[prompt.name, prompt.hash] for prompt in self.prompts]
        told = [self.parameters.tables(), prompts, {name: str(self.settings[name]) for name in sorted(self.settings)}]
        return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()[:16]

    def differences(self, other: Variant) -> list[str]:
        """What is otherwise than in another variant, a line for each thing."""
        mine, theirs = self.parameters.tables(), other.parameters.tables()
        lines = [
            f"{table}.{name}: {theirs[table][name]} → {value}"
            for table, figures in mine.items()
            for name, value in figures.items()
            if theirs[table][name] != value
        ]
        before = {prompt.name: prompt for prompt in other.prompts}
        lines += [
            f"prompt {prompt.name}: {prompt.hash[:12]}"
            for prompt in self.prompts
            if prompt.name not in before or before[prompt.name].hash != prompt.hash
        ]
        lines += [f"{name} = {value}" for name, value in self.settings.items() if other.settings.get(name) != value]
        return lines

    def placed(self, settings: Settings, folder: Path) -> Settings:
        """The settings of a session that uses this variant, its files written into `folder`."""
        changed: dict[str, Any] = dict(self.settings)
        make_private_folder(folder)
        if self.parameters != SHIPPED:
            file = folder / f"{self.key}.toml"
            write_private(file, write_parameters(self.parameters, about=f"A variant that was tried: {self.name}."))
            changed["extractive_parameters"] = file
        for prompt in self.prompts:
            place = folder / self.key / prompt.name
            make_private_folder(place)
            write_private(place / f"v{prompt.version}.md", write_prompt(prompt))
            changed["prompts"] = folder / self.key
        return replace(settings, **changed)


_FIRST = "extractive.toml"


def write_winner(run: TuneOutcome, winner: Variant, folder: Path) -> list[Path]:
    """The files of the winner in a folder of the user's; none where what is shipped has won."""
    make_private_folder(folder)
    written = [_write_next(folder, prompt) for prompt in sorted(winner.prompts, key=lambda prompt: prompt.name)]
    if winner.parameters != SHIPPED:
        held_out, trained = run.at(run.winner).validation, run.at(run.winner).train
        assert held_out is not None
        about = (
            f"Figures of the extractive summarizer, found by tuning on the suite {run.suite} ({run.optimizer}, seed "
            f"{run.seed}).\nQuality {trained.quality.mean:.4f} on the sessions tuned on, "
            f"{held_out.quality.mean:.4f} on those held out.\nUse: Settings(extractive_parameters=<this file>)"
        )
        text = write_parameters(winner.parameters, about=about)
        file = _free(folder, text)
        write_private(file, text)
        written.append(file)
    return written


def _free(folder: Path, text: str) -> Path:
    """The first name that is free, or that holds this very text already."""
    number, file = 1, folder / _FIRST
    while file.exists() and file.read_text(encoding="utf-8") != text:
        number += 1
        file = folder / f"extractive-v{number}.toml"
    return file


def _write_next(folder: Path, prompt: Prompt) -> Path:
    purpose = prompt.name
    for name in names(folder):  # written by an earlier run
        if name.startswith(f"{purpose}/") and _holds(folder / f"{name}.md", write_prompt(_numbered(prompt, name))):
            return folder / f"{name}.md"
    known = [int(name.partition("/v")[2]) for name in (*names(), *names(folder)) if name.startswith(f"{purpose}/")]
    numbered = replace(prompt, version=max(known, default=0) + 1)
    file = folder / purpose / f"v{numbered.version}.md"
    make_private_folder(file.parent)
    try:
        with open_private(file, new=True) as opened:
            opened.write(write_prompt(numbered).encode())
    except FileExistsError as error:
        raise PromptError(f"{file} is there already; prompts are never edited") from error
    return file


def _numbered(prompt: Prompt, name: str) -> Prompt:
    return replace(prompt, version=int(name.partition("/v")[2]))


def _holds(file: Path, text: str) -> bool:
    return file.read_text(encoding="utf-8") == text

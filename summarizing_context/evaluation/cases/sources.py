"""Where cases come from: small values that say how to make one case, and make it in whatever process runs it.

All cases get hindsight probes besides their own, and all are linted: what fails is refused before it is scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.cases.files import read_case, short_names
from summarizing_context.evaluation.cases.generator.sessions import Recipe, generate_case
from summarizing_context.evaluation.cases.hindsight import with_hindsight
from summarizing_context.evaluation.cases.imported import (
    locomo_case,
    locomo_files,
    longmemeval_case,
    longmemeval_numbers,
)
from summarizing_context.evaluation.cases.lint import lint_case
from summarizing_context.evaluation.cases.model import Case
from summarizing_context.evaluation.transcripts import find_transcripts

DATASETS = ("locomo", "longmemeval")
_SHOWN = 20  # files that one error names


@dataclass(frozen=True, slots=True)
class Generated:
    """A case that the generator writes."""

    recipe: Recipe

    def load(self) -> Case:
        return _sound(with_hindsight(generate_case(self.recipe)))


@dataclass(frozen=True, slots=True)
class Written:
    """A transcript file, with or without a sidecar."""

    path: Path
    budget: int  # of views, where no sidecar says otherwise
    name: str = ""  # that no other of its folder has; its file's if none is given

    def load(self) -> Case:
        return _sound(with_hindsight(self.read()))

    def read(self) -> Case:
        """The case as its files say it."""
        return read_case(self.path, budget=self.budget, name=self.name)


@dataclass(frozen=True, slots=True)
class Imported:
    """One case of a data set that the user has."""

    dataset: str
    path: Path
    number: int
    budget: int

    def load(self) -> Case:
        make = locomo_case if self.dataset == "locomo" else longmemeval_case
        return _sound(make(self.path, self.number, budget=self.budget))


CaseSource = Generated | Written | Imported


def folder_sources(paths: Sequence[Path], *, budget: int) -> list[CaseSource]:
    """The transcripts of these files and folders."""
    return [Written(path, budget, name) for path, name in short_names(find_transcripts(paths)).items()]


def check_readable(sources: Sequence[CaseSource]) -> None:
    """Raise a `TranscriptError` that names all transcripts that cannot be read, before any is run."""
    wrong = [words for source in sources if isinstance(source, Written) for words in _wrong(source)]
    if not wrong:
        return
    others = [words.partition(": ")[0] for words in wrong[1:]]
    shown = ", ".join(others[:_SHOWN]) + (" …" if len(others) > _SHOWN else "")
    raise TranscriptError(f"{wrong[0]}{f'; {len(others)} more cannot be used: {shown}' if others else ''}")


def _wrong(source: Written) -> list[str]:
    try:
        source.read()
    except TranscriptError as error:
        return [str(error)]
    return []


def dataset_sources(name: str, path: Path, *, budget: int) -> list[CaseSource]:
    """The cases of a data set."""
    if name == "locomo":
        return [Imported(name, file, number, budget) for file, number in locomo_files(path)]
    if name == "longmemeval":
        return [Imported(name, path, number, budget) for number in longmemeval_numbers(path)]
    raise SettingsError(f"there is no data set {name!r}; known are {', '.join(DATASETS)}")


def _sound(case: Case) -> Case:
    """The case, if lint finds nothing wrong with it."""
    complaints = lint_case(case)
    if complaints:
        more = f" (and {len(complaints) - 1} more; `eval lint` shows all)" if len(complaints) > 1 else ""
        raise TranscriptError(f"{complaints[0]}{more}")
    return case

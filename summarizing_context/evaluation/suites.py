"""Suites of recorded answers: a TOML file that names a recording and bounds on its scores; or a folder of `eval ask`.

Named suites stand in `evals/suites` of a checkout; the package ships none.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.real.recording import CASES
from summarizing_context.evaluation.real.scores import Bound

FOLDER = Path("evals") / "suites"
CASSETTES = Path("evals") / "cassettes"


class Suite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a suite file says; `recording` is a folder, seen from the checkout."""

    name: str
    claim: str
    recording: str
    bounds: list[Bound] = []


@dataclass(frozen=True, slots=True)
class LoadedSuite:
    """A suite, and the checkout that it stands in."""

    suite: Suite
    root: Path

    @property
    def cassette(self) -> Path:
        """The file of the replies that are recorded for it."""
        return self.root / CASSETTES / f"{self.suite.name}.jsonl"


def load_suite(name: str, start: Path) -> LoadedSuite:
    """Return a suite by its name, or the recorded answers of a folder. Raise `SettingsError`."""
    if (own := recorded_folder(Path(name))) is not None:
        return own
    root = next((folder for folder in (start, *start.parents) if (folder / FOLDER).is_dir()), None)
    if root is None:
        raise SettingsError(
            f"suite {name!r}: named suites stand in {FOLDER.as_posix()} of a checkout, and this is none; "
            "take --cases or --dataset with data of your own, or a folder that `eval ask` has recorded"
        )
    path = root / FOLDER / f"{name}.toml"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in (root / FOLDER).glob("*.toml"))) or "none"
        raise SettingsError(f"there is no suite {name!r} in {FOLDER.as_posix()}; there are: {there}")
    try:
        return LoadedSuite(msgspec.convert(tomllib.loads(path.read_text(encoding="utf8")), Suite), root)
    except (msgspec.ValidationError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{FOLDER.as_posix()}/{path.name}: {error}") from error


def recorded_folder(folder: Path) -> LoadedSuite | None:
    """Return a folder of recorded answers as a suite; None if it is none."""
    if not (folder / CASES).is_file():
        return None
    claim = "Answers of a model to questions about these sessions, from views with equal tokens."
    return LoadedSuite(Suite(name=folder.resolve().name, claim=claim, recording="."), folder)

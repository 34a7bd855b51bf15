"""The run's folder: every evaluation as a line of JSON, so that an interrupted run goes on where it was.

A line that was cut off by the interruption is dropped; a folder of another run is refused.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from summarizing_context.errors import SettingsError
from summarizing_context.evaluation.tuning.splits import Side
from summarizing_context.evaluation.tuning.trials import SessionScore
from summarizing_context.private_files import make_private_folder, open_private, write_private

FILE = "evaluations.jsonl"
FORMAT = 1


class Header(msgspec.Struct, frozen=True):
    """The first line: whose evaluations follow."""

    task: str  # names sessions, split and settings
    format: int = FORMAT


class Evaluation(msgspec.Struct, frozen=True):
    """One variant on one side."""

    variant: str  # its key
    side: Side
    scores: list[SessionScore]


class Ledger:
    """The evaluations of one run, read from its folder and written there."""

    def __init__(self, folder: Path, task: str) -> None:
        self._path = folder / FILE
        self._known: dict[tuple[str, Side], list[SessionScore]] = {}
        make_private_folder(folder)
        whole = self._read(Header(task))
        write_private(self._path, whole)  # without a line that was cut off

    @property
    def evaluations(self) -> int:
        return len(self._known)

    def find(self, variant: str, side: Side) -> list[SessionScore] | None:
        return self._known.get((variant, side))

    def add(self, variant: str, side: Side, scores: list[SessionScore]) -> None:
        self._known[variant, side] = scores
        with open_private(self._path, append=True) as file:
            file.write(msgspec.json.encode(Evaluation(variant, side, scores)) + b"\n")

    def _read(self, header: Header) -> bytes:
        """The lines that are whole, and what they say."""
        content = self._path.read_bytes() if self._path.exists() else b""
        lines = content.split(b"\n")[:-1]
        if not lines:
            return msgspec.json.encode(header) + b"\n"
        try:
            found = msgspec.json.decode(lines[0], type=Header)
            read = [msgspec.json.decode(line, type=Evaluation) for line in lines[1:]]
        except msgspec.DecodeError as error:
            raise SettingsError(f"{self._path}: is no run of tune ({error}); name another folder with --out") from error
        if found != header:
            raise SettingsError(
                f"{self._path.parent} holds a run with other sessions or settings; name another folder with --out, or "
                "delete it"
            )
        self._known = {(one.variant, one.side): one.scores for one in read}
        return b"\n".join(lines) + b"\n"

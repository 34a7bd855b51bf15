"""Sources of cases: generated sessions, transcript files with or without probes, datasets.

A source is a small value that loads its case in any process. A sidecar `name.probes.json` adds probes to
`name.jsonl`, bound by a hash. Each case also gets hindsight probes, and a case that fails `lint` is refused.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import MessageError, SettingsError, TranscriptError
from summarizing_context.evaluation.cases.datasets import (
    locomo_case,
    locomo_files,
    longmemeval_case,
    longmemeval_numbers,
)
from summarizing_context.evaluation.cases.hindsight import with_hindsight
from summarizing_context.evaluation.cases.model import Case, Cut, Message, Probe, cuts_near
from summarizing_context.evaluation.cases.sessions import Recipe, generate_case
from summarizing_context.evaluation.cases.verdicts import lint_case
from summarizing_context.evaluation.outcomes import indented
from summarizing_context.messages.validation import canonical_json, check_message
from summarizing_context.stores.private_files import write_private
from summarizing_context.transcripts import AUTO, find_transcripts, read, read_session

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
    session_id: str = ""  # where the file holds several
    format: str = AUTO
    skipped_lines: tuple[str, ...] = ()  # of the file, as `file:line: why`

    def load(self) -> Case:
        return _sound(with_hindsight(self.read()))

    def read(self) -> Case:
        """The case as its files say it."""
        return read_case(self.path, budget=self.budget, name=self.name, session_id=self.session_id, format=self.format)


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


def folder_sources(paths: Sequence[Path], *, budget: int, format: str = AUTO) -> list[CaseSource]:
    """The transcripts of these files and folders, each session of a file for itself."""
    names = short_names(find_transcripts(paths))
    return [source for path, name in names.items() for source in _sessions(path, budget, name, format)]


def _sessions(path: Path, budget: int, name: str, format: str) -> list[Written]:
    try:
        logs = list(read(path, format=format))
    except TranscriptError:
        logs = []  # `check_readable` tells of it
    found = [log.session_id for log in logs if log.messages]
    skipped = tuple(line for log in logs for line in log.unreadable)
    if len(found) < 2:
        return [Written(path, budget, name, format=format, skipped_lines=skipped)]
    first, *others = [Written(path, budget, f"{name}#{session_id}", session_id, format) for session_id in found]
    return [replace(first, skipped_lines=skipped), *others]


def check_readable(sources: Sequence[CaseSource]) -> list[str]:
    """The lines that are skipped in transcripts. Raises a `TranscriptError` that names all transcripts that cannot be
    read, before any is run."""
    wrong = [words for source in sources if isinstance(source, Written) for words in _wrong(source)]
    if not wrong:
        return [line for source in sources if isinstance(source, Written) for line in source.skipped_lines]
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


SIDECAR = ".probes.json"
FORMAT = 1
SHARES = (0.4, 0.6, 0.8)  # of an unlabelled transcript: where it is cut
_HASH = "hash"


class Sidecar(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands beside a transcript."""

    cuts: list[Cut]
    probes: list[Probe]
    title: str = ""
    domain: str = ""
    source: str = "written"
    licence: str = ""
    format: int = FORMAT
    hash: str = ""  # over the messages and everything else here


def read_case(path: Path, *, budget: int, name: str = "", session_id: str = "", format: str = AUTO) -> Case:
    """The case of a transcript file, called by its file's name unless told otherwise; with a sidecar, its own cuts and
    budgets."""
    messages = _messages(path, session_id, format)
    name = name or _name(path)
    sidecar = sidecar_path(path)
    if not sidecar.exists():
        return Case(
            id=name, messages=messages, cuts=cuts_near(messages, budget, SHARES), title=name, source="transcript"
        )
    content = _read_sidecar(sidecar)
    if content.hash != case_hash(messages, content):
        raise TranscriptError(
            f"{sidecar}:1: its hash does not fit the transcript and the probes; look at what was changed, "
            "then seal it with `eval lint --seal`"
        )
    return _case(name, messages, content)


def read_unsealed(path: Path) -> Case:
    """The case of a transcript with a sidecar, whatever its hash says."""
    messages = _messages(path)
    return _case(_name(path), messages, _read_sidecar(sidecar_path(path)))


def write_case(case: Case, folder: Path) -> Path:
    """Write a case as a transcript and its sidecar; the transcript's path."""
    path = folder / f"{case.id}.jsonl"
    write_private(path, "".join(canonical_json(message) + "\n" for message in case.messages))
    sidecar = Sidecar(
        cuts=list(case.cuts),
        probes=list(case.probes),
        title=case.title,
        domain=case.domain,
        source=case.source,
        licence=case.licence,
    )
    _write_sidecar(path, sidecar, case.messages)
    return path


def seal(path: Path) -> None:
    """Write the right hash into the sidecar of a transcript."""
    messages = _messages(path)
    _write_sidecar(path, _read_sidecar(sidecar_path(path)), messages)


def case_hash(messages: Sequence[Message], sidecar: Sidecar) -> str:
    """SHA-256 over the messages and all of the sidecar but its hash."""
    fields = msgspec.to_builtins(msgspec.structs.replace(sidecar, hash=""))
    return hashlib.sha256(canonical_json([list(messages), fields]).encode("utf8", "surrogatepass")).hexdigest()


def sidecar_path(path: Path) -> Path:
    return path.with_name(_name(path) + SIDECAR)


def short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each file: its own, with as much of its path before it as tells it from the others."""
    names = {path: _name(path) for path in paths}
    parts = 0
    while crowded := {name for name, count in Counter(names.values()).items() if count > 1}:
        parts += 1
        names = {path: "/".join(path.parts[-parts:]) if name in crowded else name for path, name in names.items()}
    return names


def _messages(path: Path, session_id: str = "", format: str = AUTO) -> tuple[Message, ...]:
    """The messages of a file, each of which a context would take."""
    log = read_session(path, session_id, format=format)
    for index, message in enumerate(log.messages):
        try:
            check_message(message)
        except MessageError as error:
            raise TranscriptError(f"{log.where(index)}: {error}") from error
    return log.messages


def _case(name: str, messages: tuple[Message, ...], sidecar: Sidecar) -> Case:
    return Case(
        id=name,
        messages=messages,
        cuts=tuple(sidecar.cuts),
        probes=tuple(sidecar.probes),
        title=sidecar.title or name,
        domain=sidecar.domain,
        source=sidecar.source,
        licence=sidecar.licence,
    )


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _read_sidecar(path: Path) -> Sidecar:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Sidecar)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TranscriptError(
            f"{path}:1: not a sidecar of probes: {error}; the format is in evals/README.md"
        ) from error
    if found.format != FORMAT:
        raise TranscriptError(f"{path}:1: format {found.format}; this version reads format {FORMAT}")
    return found


def _write_sidecar(path: Path, sidecar: Sidecar, messages: Sequence[Message]) -> None:
    sealed = msgspec.structs.replace(sidecar, hash=case_hash(messages, sidecar))
    document: dict[str, Any] = msgspec.to_builtins(sealed)
    document["probes"] = [
        {name: value for name, value in probe.items() if value not in (None, (), [])} for probe in document["probes"]
    ]
    write_private(sidecar_path(path), indented(document))

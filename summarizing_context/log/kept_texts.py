"""The newest instruction files (CLAUDE.md and the like) and the newest plan of one session, kept beside the log as its
messages come.

Pure bookkeeping in memory, derived from the log alone: a log that is loaded, forked or replaced has the same again.
Hosts put files into rows of the conversation: only what no person typed is looked at, and only behind the marks that
hosts write before a file. A result of a tool never holds one: it may quote anything.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from summarizing_context.extraction.plans import Item, changes_one, numbered_task, plan_in_call, plan_in_result
from summarizing_context.log.entries import Entry, Role
from summarizing_context.messages.fences import split_pieces
from summarizing_context.messages.reading import Part, Reading
from summarizing_context.settings.ledger_rules import ToolRules

_MARKS = (  # without any of these in its bytes a message holds no such file
    *(b"Contents of ", b"AGENTS.md instructions", b"<user_instructions>", b"Instructions from: "),
    *(b"--- Context from: ", b"<context_file", b"# CLAUDE.md", b"# AGENTS.md", b"# GEMINI.md"),
)

FILE_ROLES = frozenset({Role.USER, Role.SYSTEM, Role.DEVELOPER})  # of messages that may hold a file
_NAMED = r"[^\n]{0,300}\b(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md"
_TOLD = r"\((?=[^\n)]{0,200}(?:instructions|memory))[^\n)]{0,200}\)"  # behind a path, what the file is
_HEADS = re.compile(
    r"^(?:"
    rf"Contents of (?:(?P<claude>[^\n]{{1,300}}?) {_TOLD}|(?P<nested>{_NAMED})):"
    r"|\# AGENTS\.md instructions(?: for (?P<folder>[^\n]{1,300}))?"
    r"|(?P<tag><user_instructions>)"
    r"|Instructions from: (?P<opencode>[^\n]{1,300})"
    r"|--- Context from: (?P<gemini>[^\n]{1,160}\.md) ---"
    r"|(?P<amplifier><context_file(?:[^\S\n][^\n>]{0,1000})?>)"
    r")[^\S\n]*(?:\n|\Z)",
    re.MULTILINE,
)

_PATH = re.compile(r"(?<![^\s\"',;→])[^\s\"',;→]{0,300}\b(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md\b")
_TITLE = re.compile(r"\s*#+ ((?:CLAUDE|AGENTS|GEMINI)\.md)[^\S\n]*(?:\n|\Z)")  # of a file that stands there bare
_END = re.compile(  # what hosts write behind the last file
    r"^(?:</(?:system-reminder|INSTRUCTIONS|user_instructions|context_file)>|--- End of Context from: "
    r"|[^\S\n]*# (?:currentDate|gitStatus|userEmail|important-instruction-reminders)[^\S\n]*$"
    r"|[^\S\n]*IMPORTANT: this context may or may not be relevant)",
    re.MULTILINE,
)


class Instructions(NamedTuple):
    """The text of an instruction file, and the message that holds it."""

    message: int
    name: str
    text: str


class PlanItems(NamedTuple):
    """A plan, and the message that holds it; of a plan made task by task the first message."""

    message: int = -1
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The newest plan or to-do list of a session."""

    text: str  # one line an item, marked `[x]`, `[>]`, `[ ]` or `[-]`
    message: int  # index in the log


class _Call(NamedTuple):
    """A call of a tool that makes plans."""

    message: int
    keys: tuple[str, ...]  # arguments that may hold a plan
    wrote: bool


class KeptTexts:
    """Instruction files and plans of a growing log."""

    def __init__(self, tools: ToolRules | None = None) -> None:
        self.tools = ToolRules() if tools is None else tools
        self._files: dict[str, list[Instructions]] = {}  # by name, each in the order of the log
        self._plans: list[tuple[int, PlanItems]] = []  # each with the message from which on it holds
        self.calls: dict[str, list[_Call]] = {}  # of tools that make plans, by id

    def add(self, index: int, entry: Entry) -> None:
        """Take in the message at `index`, which is newer than all before: one with files, with calls that may plan, or
        with results of `calls`."""
        facts = entry.facts
        for name, text in _instruction_files(entry.read(index).reading) if facts.role in FILE_ROLES else ():
            versions = self._files.setdefault(name, [])
            is_same = versions and versions[-1].text == text
            versions.append(Instructions(index, name, versions[-1].text if is_same else text))
        if facts.calls:
            for part in entry.read(index).reading.parts:
                if part.kind != "call" or not (keys := self.tools.plan_keys(part.name)):
                    continue
                newest = self._newest
                items = plan_in_call("".join(part.texts), keys, newest.items)
                if items is not None:
                    message = newest.message if changes_one(keys) and newest.items else index
                    self._plans.append((index, PlanItems(message, items)))
                self.calls.setdefault(part.id, []).append(_Call(index, keys, items is not None))
        if facts.answers and not self.calls.keys().isdisjoint(facts.answers):
            for part in entry.read(index).reading.parts:
                if part.kind == "result" and part.id in self.calls:
                    self._note_result(index, part, self.calls[part.id][-1])

    def _note_result(self, index: int, part: Part, call: _Call) -> None:
        """The result of a call that wrote no plan may tell it, or the id of a task. One that failed takes back what its
        call wrote."""
        text, newest = "\n".join(part.texts), self._newest
        if part.failed:
            if call.wrote and self._plans[-1][0] == call.message:
                before = (plan for since, plan in reversed(self._plans) if since < call.message)
                self._plans.append((index, next(before, PlanItems())))
        elif not call.wrote:
            if (items := plan_in_result(text, call.keys)) is not None:
                self._plans.append((index, PlanItems(index, items)))
        elif changes_one(call.keys) and (items := numbered_task(text, newest.items)) is not None:
            self._plans.append((index, newest._replace(items=items)))

    def forget(self, stop: int) -> None:
        """The log ends at `stop` now: nothing after it has been said."""
        for versions in self._files.values():
            del versions[bisect_left(versions, stop, key=lambda one: one.message) :]
        for calls in self.calls.values():
            del calls[bisect_left(calls, stop, key=lambda one: one.message) :]
        self._files = {name: versions for name, versions in self._files.items() if versions}
        self.calls = {id: calls for id, calls in self.calls.items() if calls}
        del self._plans[bisect_left(self._plans, stop, key=lambda one: one[0]) :]

    def instructions(self, cut: int) -> list[Instructions]:
        """The newest text of each file, where that stands before entry `cut`; in the order of the log."""
        newest = (versions[-1] for versions in self._files.values())
        return sorted((file for file in newest if file.message < cut), key=lambda file: file.message)

    @property
    def plan(self) -> PlanItems | None:
        """The newest plan; None where there is none, or where it was emptied."""
        plan = self._newest
        return plan if plan.items else None

    @property
    def _newest(self) -> PlanItems:
        return self._plans[-1][1] if self._plans else PlanItems()


def may_hold_files(message: bytes) -> bool:
    """Return False only for the bytes of a message that holds no instruction file."""
    return any(map(message.__contains__, _MARKS))


def _instruction_files(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the instruction files in a message, in their order; none in what a person typed or a tool said. Each is its
    path, or its name where there is no path, and its text."""
    for part in reading.parts:
        for text in part.texts if part.kind == "text" else ():
            said = text[:400_000]
            if part.put_in or not reading.human:
                yield from _files(said)
            else:
                for piece in split_pieces(said):
                    yield from () if piece.typed else _files(piece.text)


def _files(text: str) -> Iterator[tuple[str, str]]:
    heads = list(_HEADS.finditer(text))
    if not heads and (title := _TITLE.match(text)):
        yield title[1], text.strip()
    for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
        body = text[head.end() : stop]
        end = _END.search(body)
        body = (body[: end.start()] if end else body).strip()
        body = body.removeprefix("<INSTRUCTIONS>").strip()  # stands between Codex's heading and the file
        if body and (name := _name(head, body)):
            yield name, body


def _name(head: re.Match[str], body: str) -> str:
    """Return the path of a file; empty for a file of Amplifier's context that holds no instructions."""
    if amplifier := head["amplifier"]:
        title = _TITLE.match(body)
        paths: list[str] = _PATH.findall(amplifier)
        return paths[-1] if paths else title[1] if title else ""
    if folder := head["folder"]:
        return f"{folder.strip().rstrip('/')}/AGENTS.md"
    named = head["claude"] or head["nested"] or head["opencode"] or head["gemini"]
    return named.strip() if named else "AGENTS.md"

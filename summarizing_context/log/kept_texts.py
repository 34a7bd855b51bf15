"""The newest instruction files and the newest plan of one session, kept beside the log as its messages come.

Pure bookkeeping in memory, derived from the log alone: a log that is loaded, forked or replaced has the same again.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from summarizing_context.extraction.plans import Item, changes_one, numbered_task, plan_in_call, plan_in_result
from summarizing_context.log.entries import Entry, Role
from summarizing_context.messages.instruction_files import instruction_files
from summarizing_context.settings.ledger_rules import PlanTools

_FILED = frozenset({Role.USER, Role.SYSTEM, Role.DEVELOPER})


class Instructions(NamedTuple):
    """The text of an instruction file, and the message that holds it."""

    message: int
    name: str
    text: str


class PlanItems(NamedTuple):
    """A plan, and the message that holds it; of a plan made task by task the first message."""

    message: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The newest plan or to-do list of a session."""

    text: str  # one line an item, marked `[x]`, `[>]`, `[ ]` or `[-]`
    message: int  # index in the log


NO_PLAN = PlanItems(-1, ())


class _State(NamedTuple):
    """The plan that holds from a message on."""

    since: int
    plan: PlanItems


class _Call(NamedTuple):
    """A call of a tool that makes plans."""

    message: int
    keys: tuple[str, ...]  # arguments that may hold a plan
    wrote: bool


class KeptTexts:
    """Instruction files and plans of a growing log."""

    def __init__(self, tools: PlanTools | None = None) -> None:
        self.tools = PlanTools() if tools is None else tools
        self._files: dict[str, list[Instructions]] = {}  # by name, each in the order of the log
        self._states: list[_State] = []
        self._calls: dict[str, list[_Call]] = {}  # by id

    def add(self, index: int, entry: Entry) -> None:
        """Take in the message at `index`, which is newer than all before."""
        facts = entry.facts
        if facts.role in _FILED and facts.files:
            self._note_files(index, entry)
        if facts.calls and self.tools.may_stand_in(entry.data):
            self._note_calls(index, entry)
        if facts.answers and not self._calls.keys().isdisjoint(facts.answers):
            self._note_results(index, entry)

    def forget(self, stop: int) -> None:
        """The log ends at `stop` now: nothing after it has been said."""
        for versions in self._files.values():
            del versions[bisect_left(versions, stop, key=lambda one: one.message) :]
        for calls in self._calls.values():
            del calls[bisect_left(calls, stop, key=lambda one: one.message) :]
        self._files = {name: versions for name, versions in self._files.items() if versions}
        self._calls = {id: calls for id, calls in self._calls.items() if calls}
        del self._states[bisect_left(self._states, stop, key=lambda one: one.since) :]

    def instructions(self, cut: int) -> list[Instructions]:
        """The newest text of each file, where that stands before entry `cut`; in the order of the log."""
        newest = (versions[-1] for versions in self._files.values())
        return sorted((file for file in newest if file.message < cut), key=lambda file: file.message)

    @property
    def plan(self) -> PlanItems | None:
        """The newest plan; None where there is none, or where it was emptied."""
        plan = self._plan
        return plan if plan.items else None

    @property
    def _plan(self) -> PlanItems:
        return self._states[-1].plan if self._states else NO_PLAN

    def _note_files(self, index: int, entry: Entry) -> None:
        for name, text in instruction_files(entry.read(index).reading):
            versions = self._files.setdefault(name, [])
            is_same = versions and versions[-1].text == text
            versions.append(Instructions(index, name, versions[-1].text if is_same else text))

    def _note_calls(self, index: int, entry: Entry) -> None:
        for part in entry.read(index).reading.parts:
            if part.kind != "call" or not (keys := self.tools.keys_of(part.name)):
                continue
            items = plan_in_call("".join(part.texts), keys, self._plan.items)
            if items is not None:
                message = self._plan.message if changes_one(keys) and self._plan.items else index
                self._states.append(_State(index, PlanItems(message, items)))
            self._calls.setdefault(part.id, []).append(_Call(index, keys, items is not None))

    def _note_results(self, index: int, entry: Entry) -> None:
        """The result of a call that wrote no plan may tell it, or the id of a task. One that failed takes back what its
        call wrote."""
        for part in entry.read(index).reading.parts:
            if part.kind != "result" or part.id not in self._calls:
                continue
            call = self._calls[part.id][-1]
            text = "\n".join(part.texts)
            if part.failed and call.wrote and self._states[-1].since == call.message:
                before = next((one.plan for one in self._states[::-1] if one.since < call.message), NO_PLAN)
                self._states.append(_State(index, before))
            elif call.wrote and not part.failed and changes_one(call.keys):
                numbered = numbered_task(text, self._plan.items)
                if numbered is not None:
                    self._states.append(_State(index, self._plan._replace(items=numbered)))
            elif not part.failed and not call.wrote:
                items = plan_in_result(text, call.keys)
                if items is not None:
                    self._states.append(_State(index, PlanItems(index, items)))


def rendered(plan: PlanItems) -> Plan:
    """A plan as it is told."""
    return Plan("\n".join(item.line for item in plan.items), plan.message)

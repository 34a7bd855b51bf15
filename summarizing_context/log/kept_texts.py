"""What the log is searched for as it grows: instruction files (CLAUDE.md and the like), the newest plan, the agent's
notes, and the human's standing rules; and where the agent has ended its plan, or a task.

Bookkeeping in memory, derived from the log alone: a log that is loaded, forked or replaced has the same again. What is
a file, a plan or a rule, and what a rule is about, is read in `extraction`. Cues tell what is a rule until a model has
said it of the message.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

from summarizing_context.extraction.facts import (
    Item,
    ToolRules,
    changes_one,
    numbered_task,
    plan_in_call,
    plan_in_result,
)
from summarizing_context.extraction.rules import Rule, instruction_files, may_hold_files, rule_topic
from summarizing_context.log.entries import PASSED, Entry, Role, Verdict
from summarizing_context.log.ledger import SAID, Fact
from summarizing_context.messages.reading import parsed

COMPACT = "context_compact"  # the tool with which an agent says that a task is done; clients set words before it
MAX_NOTE = 2_000  # characters of what it keeps


class KeptText(NamedTuple):
    """The text of an instruction file, or what the agent kept of a task that it called done, which may be empty."""

    message: int  # that holds it, or says so
    text: str
    name: str = ""  # of the file


class PlanItems(NamedTuple):
    """A plan, and the message that holds it; of a plan made task by task the first message."""

    message: int = -1
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The newest plan or to-do list of a session."""

    text: str  # one line an item, marked `[x]`, `[>]`, `[ ]` or `[-]`
    message: int  # index in the log


class KeptTexts:
    """Instruction files and plans of a growing log."""

    def __init__(self, tools: ToolRules) -> None:
        self._tools = tools
        self._files: dict[str, KeptText] = {}  # the newest, by name
        self._unread: list[tuple[int, Entry]] = []  # messages that may hold files: these may be long
        self._newest = PlanItems()
        self.done_at, self.done = -1, 0  # the newest message that left no item of a plan open; so many have
        self._notes: list[KeptText] = []
        self.ended_at = -1  # the newest message with which the agent has called a task done
        # calls that may write a plan, or end a task, by id until they are answered: message, keys of a plan, arguments
        self._waiting: dict[str, tuple[int, tuple[str, ...], str]] = {}

    def add(self, index: int, entry: Entry) -> None:
        facts, data = entry.facts, entry.data
        if facts.role in (Role.USER, Role.SYSTEM, Role.DEVELOPER) and may_hold_files(data):
            self._unread.append((index, entry))
        takes_part = not self._waiting.keys().isdisjoint(facts.answers)
        if facts.calls and not takes_part:  # the name of a tool that plans, or ends a task, may stand in its bytes
            has = data.lower().__contains__
            takes_part = has(COMPACT.encode()) or any(all(map(has, name)) for name in self._tools.plan_words)
        for part in entry.read(index).reading.parts if takes_part else ():
            if part.kind == "call":
                keys = self._tools.plan_keys(part.name)
                if keys or (part.name.endswith(COMPACT) and facts.role is Role.ASSISTANT):
                    self._waiting[part.id] = index, keys, "".join(part.texts)
            elif part.kind == "result" and (call := self._waiting.pop(part.id, None)) and not part.failed:
                if call[1]:
                    self._take_plan(index, "\n".join(part.texts), *call)
                else:
                    self._take_note(call[0], parsed(call[2] or "{}"))

    def _take_note(self, made_by: int, given: Any) -> None:
        kept = (given.pop("keep", None) or "") if isinstance(given, dict) else None
        # the tool refuses other arguments, so these calls end nothing
        if isinstance(kept, str) and len(kept) <= MAX_NOTE and all(one in (None, "") for one in given.values()):
            self._notes.append(KeptText(made_by, kept.strip()))
            self.ended_at = made_by

    def _take_plan(self, index: int, said: str, made_by: int, keys: tuple[str, ...], arguments: str) -> None:
        """Take the plan that a call has written, or that the result at `index` tells."""
        before = self._newest
        if (items := plan_in_call(arguments, keys, before.items)) is not None:
            index = made_by
            if changes_one(keys):
                items = numbered_task(said, items) or items
        elif (items := plan_in_result(said, keys)) is None:
            return
        if any(item.is_open for item in before.items) and not any(item.is_open for item in items):
            self.done_at, self.done = index, self.done + 1
        goes_on = index == made_by and changes_one(keys) and before.items
        self._newest = PlanItems(before.message if goes_on else index, items)

    def instructions(self, cut: int) -> list[KeptText]:
        """The newest text of each file, where that stands before entry `cut`; in the order of the log."""
        unread, self._unread = self._unread, []
        for index, entry in unread:
            for name, text in instruction_files(entry.read(index).reading):
                self._files[name] = KeptText(index, text, name)
        return sorted((file for file in self._files.values() if file.message < cut), key=lambda file: file.message)

    def notes(self, cut: int) -> list[KeptText]:
        """What the agent kept before entry `cut`, the newest first."""
        return [note for note in reversed(self._notes) if note.text and note.message < cut]

    def plan(self, cut: float = inf) -> PlanItems | None:
        """The newest plan, where that stands before entry `cut`; None where there is none, or where it was emptied."""
        return self._newest if self._newest.items and self._newest.message < cut else None


class StandingRule(NamedTuple):
    """A rule of the human's, and the message it stands in."""

    message: int  # log entry
    quote: str  # verbatim, but for white space
    strength: Literal["must", "prefer"]
    ended_by: int | None = None  # the later message that takes it back or replaces it
    source: Literal["model", "cues"] = "cues"  # who found it


class RuleLog:
    """The rules of a growing log, in its order."""

    def __init__(self) -> None:
        self._by_cues: dict[int, tuple[Rule, ...]] = {}  # by message of a human's
        self.verdicts: dict[int, Verdict] = {}
        self.open = array("q")  # messages on which a model may still be asked

    def add(self, index: int, rules: tuple[Rule, ...], verdict: Verdict | None = None) -> None:
        """The message at `index`, which is newer than all before, with what cues tell, and a model's verdict."""
        self.open.append(index)
        if rules:
            self._by_cues[index] = rules
        if verdict is not None:
            self.judge(index, verdict)

    def judge(self, index: int, verdict: Verdict) -> None:
        """A model has said what the rules of an open message are, or is not asked about it again."""
        del self.open[bisect_left(self.open, index)]
        self.verdicts[index] = verdict
        if verdict.rules or verdict.ends:
            self._by_cues.setdefault(index, ())

    def all(self, cut: float = inf) -> list[StandingRule]:
        """Return every rule in the order of the log, each with the message that ends it: a model says so, or a later
        rule repeats it, or rules on the same. What was said from entry `cut` on counts for nothing."""
        found: list[StandingRule] = []
        ends: dict[str, int] = {}  # by quote, the next message with which a model says that it ends
        later: dict[tuple[str, str], int] = {}  # the message of the next rule by what it is about
        for index in sorted((index for index in self._by_cues if index < cut), reverse=True):
            verdict = self.verdicts.get(index, PASSED)
            source: Literal["model", "cues"] = "model" if verdict.given else "cues"
            rules = verdict.rules if verdict.given else self._by_cues[index]
            for rule in reversed(rules):
                topic, quote = rule_topic(rule.quote), " ".join(rule.quote.split()).casefold()
                about = [one for one in (("quote", quote), ("order", topic.order), ("choice", topic.choice)) if one[1]]
                end = ends.get(rule.quote, min((later[one] for one in about if one in later), default=None))
                found.append(StandingRule(index, rule.quote, rule.strength, end, source))
                later.update(dict.fromkeys(about, index))
            ends |= dict.fromkeys(verdict.ends, index)
        return found[::-1]

    def before(self, cut: int) -> list[StandingRule]:
        """Those that hold and stand in messages before `cut`, the newest first."""
        return [rule for rule in reversed(self.all()) if rule.ended_by is None and rule.message < cut]

    def facts(self) -> list[Fact]:
        rows = ((rule.quote, rule.message, rule.ended_by is not None) for rule in self.all())
        return [Fact("constraint", quote, SAID, at, at + 1, is_ended) for quote, at, is_ended in rows]

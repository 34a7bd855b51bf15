"""What the log is searched for as it grows: instruction files (CLAUDE.md and the like), the newest plan, the agent's
notes, and the human's standing rules; and where the agent has ended its plan, or a task.

Bookkeeping in memory, derived from the log alone: a log that is loaded, forked or replaced has the same again. Hosts
put files into rows of the conversation: only what no person typed is looked at, and only behind the marks that hosts
write before a file. A result of a tool never holds one: it may quote anything. Cues tell what is a rule until a model
has said it of the message; `extraction.rules` says what a rule is about.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

from summarizing_context.extraction import tool_calls
from summarizing_context.extraction.rules import Rule, rule_topic
from summarizing_context.extraction.tool_calls import Item, ToolRules, changes_one, numbered_task
from summarizing_context.log.entries import PASSED, Entry, Role, Verdict
from summarizing_context.log.ledger import SAID, Fact
from summarizing_context.messages.fences import split_pieces
from summarizing_context.messages.reading import Reading

_MARKS = re.compile(  # without any of these in its bytes a message holds no such file
    rb"Conte(?:nts of |xt from: )|AGENTS\.md instructions|Instructions from: |<(?:user_instructions>|context_file)"
    rb"|# (?:CLAUDE|AGENTS|GEMINI)\.md"
)

COMPACT = "context_compact"  # the tool with which an agent says that a task is done; clients set words before it
MAX_NOTE = 2_000  # characters of what it keeps

_FILE_ROLES = frozenset({Role.USER, Role.SYSTEM, Role.DEVELOPER})  # of messages that may hold a file
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

    def __init__(self, tools: ToolRules | None = None) -> None:
        self._tools = ToolRules() if tools is None else tools
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
        if facts.role in _FILE_ROLES and _MARKS.search(data):
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
                    self._take_note(call[0], tool_calls.parsed(call[2] or "{}"))

    def _take_note(self, made_by: int, given: Any) -> None:
        kept = (given.pop("keep", None) or "") if isinstance(given, dict) else None
        # the tool refuses other arguments, so these calls end nothing
        if isinstance(kept, str) and len(kept) <= MAX_NOTE and all(one in (None, "") for one in given.values()):
            self._notes.append(KeptText(made_by, kept.strip()))
            self.ended_at = made_by

    def _take_plan(self, index: int, said: str, made_by: int, keys: tuple[str, ...], arguments: str) -> None:
        """Take the plan that a call has written, or that the result at `index` tells."""
        before = self._newest
        if (items := tool_calls.plan_in_call(arguments, keys, before.items)) is not None:
            index = made_by
            if changes_one(keys):
                items = numbered_task(said, items) or items
        elif (items := tool_calls.plan_in_result(said, keys)) is None:
            return
        if any(item.is_open for item in before.items) and not any(item.is_open for item in items):
            self.done_at, self.done = index, self.done + 1
        goes_on = index == made_by and changes_one(keys) and before.items
        self._newest = PlanItems(before.message if goes_on else index, items)

    def instructions(self, cut: int) -> list[KeptText]:
        """The newest text of each file, where that stands before entry `cut`; in the order of the log."""
        unread, self._unread = self._unread, []
        for index, entry in unread:
            for name, text in _instruction_files(entry.read(index).reading):
                self._files[name] = KeptText(index, text, name)
        return sorted((file for file in self._files.values() if file.message < cut), key=lambda file: file.message)

    def notes(self, cut: int) -> list[KeptText]:
        """What the agent kept before entry `cut`, the newest first."""
        return [note for note in reversed(self._notes) if note.text and note.message < cut]

    def plan(self, cut: float = inf) -> PlanItems | None:
        """The newest plan, where that stands before entry `cut`; None where there is none, or where it was emptied."""
        return self._newest if self._newest.items and self._newest.message < cut else None


def _instruction_files(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the instruction files in a message, in their order; none in what a person typed or a tool said. Each is its
    path, or its name where there is no path, and its text."""
    texts = list[str]()
    for part in reading.parts:
        for said in (text[:400_000] for text in part.texts if part.kind == "text"):
            is_host = part.put_in or not reading.human
            texts += [said] if is_host else [piece.text for piece in split_pieces(said) if not piece.typed]
    for text in texts:
        heads = list(_HEADS.finditer(text))
        if not heads and (title := _TITLE.match(text)):
            yield title[1], text.strip()
        for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
            body = text[head.end() : stop]
            end = _END.search(body)
            body = (body[: end.start()] if end else body).strip()
            body = body.removeprefix("<INSTRUCTIONS>").strip()  # stands between Codex's heading and the file

            # its path; none for a file of Amplifier's context that holds no instructions
            named = head["claude"] or head["nested"] or head["opencode"] or head["gemini"] or "AGENTS.md"
            if amplifier := head["amplifier"]:
                title, paths = _TITLE.match(body), _PATH.findall(amplifier)
                named = paths[-1] if paths else title[1] if title else ""
            elif folder := head["folder"]:
                named = f"{folder.strip().rstrip('/')}/AGENTS.md"
            if body and named:
                yield named.strip(), body


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
        self._verdicts: dict[int, Verdict] = {}
        self.open = array("q")  # messages on which a model may still be asked

    @property
    def is_judged(self) -> bool:
        """Whether a model has been asked on any."""
        return bool(self._verdicts)

    def add(self, index: int, rules: tuple[Rule, ...], verdict: Verdict | None = None) -> None:
        """The message at `index`, which is newer than all before, with what cues tell, and a model's verdict."""
        self.open.append(index)
        self._by_cues[index] = rules
        if verdict is not None:
            self.judge(index, verdict)

    def judge(self, index: int, verdict: Verdict) -> None:
        """A model has said what the rules of an open message are, or is not asked about it again."""
        del self.open[bisect_left(self.open, index)]
        self._verdicts[index] = verdict

    def all(self, cut: float = inf) -> list[StandingRule]:
        """Return every rule in the order of the log, each with the message that ends it: a model says so, or a later
        rule repeats it, or rules on the same. What was said from entry `cut` on counts for nothing."""
        found: list[StandingRule] = []
        ends: dict[str, int] = {}  # by quote, the next message with which a model says that it ends
        later: dict[tuple[str, str], int] = {}  # the message of the next rule by what it is about
        for index in reversed([index for index in self._by_cues if index < cut]):
            verdict = self._verdicts.get(index, PASSED)
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

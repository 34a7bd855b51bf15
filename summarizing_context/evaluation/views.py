"""The views of a case that a reader gets: this package's, and those of other ways, each with as many tokens as ours.

Every other arm shows the leading system rows, as a host always sends them. What is left goes to what the arm stands
for, and then to the newest messages; the oldest of these is clipped where it does not fit whole.

A text stands under a line that names who said it: `[user]`, `[assistant calls Read]`, `[tool result]`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, SummarizerRefused
from summarizing_context.evaluation.replay import PLAYED, Recorder, Tally
from summarizing_context.messages.reading import Message as Message
from summarizing_context.messages.reading import parsed, read_message
from summarizing_context.messages.text import stems
from summarizing_context.messages.tokens import Price, estimate_text
from summarizing_context.settings import Settings, without_default_cap
from summarizing_context.summarizers.base import Summarizer, SummaryJob
from summarizing_context.summarizers.prompts import latest
from summarizing_context.transcripts.base import record

OURS, COMPACT = "ours", "compact"
ARMS = {
    OURS: "this package, summaries by a model",
    "extractive": "this package, no model",
    COMPACT: "one summary of everything by a model, then the newest messages",
    "compact_reread": "the same, with project instructions and the newest files read again",
    "cliff": "a mechanical cut: human and assistant words, calls as one line, short results",
    "masking": "old tool results left out",
    "tail": "the first request and the newest messages",
}

MECHANICAL = ("tail", "masking", "cliff")  # arms that need neither this package nor a model
OTHERS = (COMPACT, "compact_reread", *MECHANICAL)  # arms without this package

RESULT, CALLS, THINKS = "tool result", "assistant calls", "assistant thinks"  # who says a text
_FRAME = 2  # tokens around a message

_SHELL_READ = re.compile(r"^\s*(?:cat|nl|head|tail|sed)\b[^|;&<>]*?\s(?P<path>[\w@~./+-]*[\w/][.][\w.]{1,12})\s*$")
_INSTRUCTION_FILE = re.compile(r"(?:^|/)(?:AGENTS|CLAUDE|GEMINI)(?:\.local)?\.md$")
_INJECTED = re.compile(r"(?:AGENTS|CLAUDE)\.md instructions|Contents of \S*(?:AGENTS|CLAUDE)\.md")


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One log, and the message before which its views are taken."""

    name: str
    log: str  # file of `logs/`
    cut: int  # messages before the view
    budget: int  # tokens of our view
    source: str
    licence: str
    session: str = ""  # cases of one session count as one in intervals; where a file names none, the case
    tokens: int = 0  # of the other arms' views, which then stay as they were read; 0 for as many as ours has


class Played(NamedTuple):
    """A session as an agent lived it: our view at each cut, all figures, and the summaries of its segments."""

    views: dict[int, str]
    tally: Tally
    summaries: list[tuple[int, int, str]]
    stand_ins: int  # segments for which no reply could serve, so that an extract stands for them
    why: str  # of the last such reply
    dropped: int  # lines and clauses that were taken out of replies, for their source does not hold them


async def play(
    messages: Sequence[Message],
    cuts: Sequence[int],
    settings: Settings,
    summarizer: Summarizer | None = None,
    show: Callable[[SummarizingContext, str], Awaitable[str]] | None = None,
    *,
    between_calls: bool = True,
) -> Played:
    """Play a session: take a view, judged by the laws, before each message of the assistant, with all background work
    done; with `between_calls` also between those of one reply, as no host does. `show` may change those at the cuts."""
    fixed: Any = {"store": ":memory:", "session_id": "eval", "idle_after": "never", "image_tokens": 0}
    fixed |= {} if summarizer is None else {"summarizer": "extractive"}  # what is given stands in its place
    made, views = replace(without_default_cap(settings), **fixed, breaker_failures=1_000), dict[int, str]()
    async with open_context(made, summarizer=summarizer, count_tokens=estimate_text) as context:
        recorder = Recorder(context, Price(estimate_text, 0), Tally(file="", budget=settings.max_tokens), "free")
        for at, message in enumerate([*messages, None]):
            if message is None or message.get("role") == "assistant":
                await context.wait_idle()
                if at and (between_calls or not context.open_calls()):
                    await recorder.take_view()
            if at in cuts:
                text = text_of(recorder.view)
                views[at] = await show(context, text) if show is not None else text
            if message is not None:
                await recorder.add(message)
                PLAYED.get()(1 / len(messages))
        nodes = context.summaries()
        summaries = [(node.start, node.stop, node.text) for node in nodes if node.made_by != "stand-in"]
        told = context.statistics()
        why = told.last_error or ""
        return Played(views, recorder.finish(), summaries, len(nodes) - len(summaries), why, told.dropped_lines)


async def build(
    case: Case, messages: Sequence[Message], arms: Sequence[str], own: Settings, writer: Any
) -> tuple[Played, dict[str, str], int]:
    """Return our session, the views by arm, none without its summary, and the tokens that one-shot compaction took."""
    settings, at = replace(own, max_tokens=case.budget), len(messages)
    ours = await play(messages, [at], settings, writer)
    past, views = Past(messages, case.tokens or estimate_text(ours.views[at])), dict[str, str]()
    summary, compaction_tokens = "", 0
    if any(arm.startswith(COMPACT) for arm in arms):
        job = compaction(messages)
        with suppress(SummarizerRefused):
            summary = (await writer.summarize(job, kind=COMPACT)).text
            compaction_tokens = sum(map(estimate_text, (job.instructions, job.content, summary)))

    # A view without a model, what it leaves free filled with the end of what stands before its tail. Where the view at
    # the cut does not fit closely, other budgets are tried, each as after a restart.
    async def filled(context: SummarizingContext, text: str) -> str:
        best, start, budget, low, high = "", at, float(settings.max_tokens), 0.0, 0.0
        for tried in range(10):
            size = estimate_text(text)
            if size <= past.tokens and size > estimate_text(best):
                explained = context.explain()
                best, start = text, explained[-1].stop if explained else 0
            if past.tokens * 0.98 <= size <= past.tokens:
                break
            low, high = (max(low, budget), high) if size <= past.tokens else (low, min(high or budget, budget))
            elsewhere = min(4.0, max(0.25, (0.99 * past.tokens / max(1, size)) ** 1.5))  # a view follows it slowly
            budget = (low * high) ** 0.5 if low and high else budget * elsewhere
            await context.wait_idle()  # else the view depends on how far the summaries are
            try:
                provider = SimpleNamespace(name=f"try-{tried}")
                text = text_of(await context.get_messages_for_request(token_budget=round(budget), provider=provider))
            except BudgetError:
                break
        room = past.tokens - estimate_text(best) - 2 * _FRAME
        filling, _ = newest([[part] for message in messages[:start] for part in parts_of(message)], room)
        return f"{best}\n\n{joined(filling)}" if filling else best

    for arm in arms:
        if arm == OURS:
            text = ours.views[at]
        elif arm == "extractive":
            text = (await play(messages, [at], replace(settings, summarizer="extractive"), None, filled)).views[at]
        elif arm.startswith(COMPACT):
            text = past.compacted(summary, reread=arm == "compact_reread")
        else:
            text = mechanical(arm, past)
        if summary or not arm.startswith(COMPACT):
            views[arm] = text.encode("utf8", "replace").decode()  # as a file holds it
    return ours, views, compaction_tokens


def compaction(messages: Sequence[Message]) -> SummaryJob:
    """Return the request to summarize everything before a cut at once: numbered messages, their texts clipped."""
    user = "".join(
        f"\n[{number}] {label}: {clipped(text, 1_000 if label == RESULT else 1_500)}\n"
        for number, message in enumerate(messages)
        for label, text in parts_of(message)
    )
    content = user.encode("utf8", "replace").decode().strip()
    system, key = latest("compaction").render(characters=12_000), hashlib.sha256(content.encode()).hexdigest()
    return SummaryJob("segment", system, content, 4_000, 0, 0, len(messages), estimate_text(content), key)


# Messages as the text that a reader gets


class Part(NamedTuple):
    """One text of a message, and who says it."""

    label: str
    text: str


def parts_of(message: Message) -> list[Part]:
    """Return the texts of a message in their order; images and empty texts are left out."""
    content, role = message.get("content"), str(message.get("role"))
    label = RESULT if role in ("tool", "function") else role
    found = [Part(label, content)] if isinstance(content, str) else []
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text" | "input_text" | "output_text"}:
                found.append(Part(label, str(block.get("text") or "")))
            case {"type": "thinking"}:
                found.append(Part(THINKS, str(block.get("thinking") or "")))
            case {"type": "tool_result"}:
                found.append(Part(RESULT, _as_text(block.get("content", block.get("output")))))
            case {"type": "tool_use" | "tool_call"}:
                found.append(Part(f"{CALLS} {block.get('name')}", _as_text(block.get("input"))))
    functions = (call.get("function", call) for call in message.get("tool_calls") or [])
    found += [Part(f"{CALLS} {one.get('name')}", _as_text(one.get("arguments"))) for one in functions]
    return [part for part in found if part.text]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def text_of(messages: Iterable[Message]) -> str:
    return joined(part for message in messages for part in parts_of(message))


def joined(parts: Iterable[Part]) -> str:
    return "\n\n".join(f"[{part.label}]\n{part.text}" for part in parts)


def clipped(text: str, characters: int) -> str:
    """Return the beginning and the end of a text that is longer than so many characters."""
    if (left := len(text) - characters) <= 0:
        return text
    return f"{text[: 2 * characters // 3]} …[{left} characters left out]… {text[-characters // 3 :]}"


class Text:
    """Texts ready to be searched for whole words, in any case and with any white space."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._said = re.sub(r"[^\S\n]+", " ", "\n".join(texts))
        self.text = self._said.casefold()
        self._sentences: list[frozenset[str]] | None = None

    def place(self, literal: str) -> int:
        """Return where the literal stands as whole words first; -1 if nowhere."""
        wanted = " ".join(literal.casefold().split())
        at = self.text.find(wanted) if wanted else -1
        while at >= 0:
            before, after = self.text[at - 1 : at], self.text[at + len(wanted) : at + len(wanted) + 1]
            if not (wanted[0].isalnum() and before.isalnum()) and not (wanted[-1].isalnum() and after.isalnum()):
                break
            at = self.text.find(wanted, at + 1)
        return at

    def holds(self, *literals: str) -> bool:
        """Return whether all the literals stand here."""
        return all(self.place(literal) >= 0 for literal in literals)

    def share(self, answer: str, question: str = "") -> float | None:
        """Return the largest share of an answer's words that two neighbouring sentences hold; words of the question do
        not count. None where the answer has no word of its own."""
        if self._sentences is None:
            each = [_content(one) for one in re.split(r"\n|(?<=[.!?;])\s", self.text) if one.strip()]
            self._sentences = [one | other for one, other in pairwise([*each, frozenset()])]
        wanted = _content(answer.casefold()) - _content(question.casefold())
        most = max((len(wanted & one) for one in self._sentences), default=0)
        return most / len(wanted) if wanted else None

    def excerpt(self, literal: str) -> str:
        """Return the words around a literal, with "…" where more stands; empty where it does not stand."""
        if (place := self.place(literal)) < 0:
            return ""
        text = self._said if len(self._said) == len(self.text) else self.text  # a letter may become two
        end = place + len(" ".join(literal.casefold().split()))
        before, after = text[max(0, place - 60) : place], text[end : max(end, place + 120)]
        before = re.sub(r"^\S*\s*", "… ", before, count=1) if place > 60 else before
        after = re.sub(r"\s*\S*$", " …", after, count=1) if end + len(after) < len(text) else after
        return " ".join(f"{before}{text[place:end]}{after}".split())


def _content(text: str) -> frozenset[str]:
    """The stems of words that say something: those of four letters, and those with a digit."""
    return frozenset(one for one in stems(text) if len(one) > 3 or any(map(str.isdigit, one)))


class Past:
    """The messages before a cut; `tokens` are those of every view, `room` what leading system rows leave of them."""

    def __init__(self, messages: Sequence[Message], tokens: int) -> None:
        roles = [message.get("role") for message in messages]
        rows = next((at for at, role in enumerate(roles) if role not in ("system", "developer")), len(roles))
        self.messages, self.tokens = messages, tokens
        self.leading = [part for message in messages[:rows] for part in parts_of(message)]
        self.room = max(0, tokens - cost(self.leading))
        self.groups: list[list[Part]] = []  # a call with its results
        for message in messages[rows:]:
            parts = parts_of(message)
            if self.groups and parts and all(part.label == RESULT for part in parts):
                self.groups[-1] += parts
            else:
                self.groups.append(parts)

    def view(self, notes: Sequence[Part], *, groups: Sequence[list[Part]] | None = None, first: bool = True) -> str:
        """Return leading rows, the first request clipped to a fifth, notes, and the newest groups that fit."""
        groups, notes = self.groups if groups is None else groups, fitted(notes, self.room)
        asked = next((group for group in self.groups if group and group[0].label == "user"), []) if first else []
        for request in (fitted(asked, int(0.2 * self.room)), []):
            head = [*self.leading, *request, *notes]
            tail, start = newest(groups, self.tokens - cost(head))
            if start or not first:  # else the tail holds the first request
                break
        return joined([*head, *tail])

    def compacted(self, summary: str, *, reread: bool = False) -> str:
        """Return a summary and the newest messages; `reread` brings back instructions and files, large ones by path."""
        title = "This session continues an earlier conversation that ran out of context. Summary of it:"
        notes = [Part("user", f"{title}\n{summary}")]
        if not reread:
            return self.view(notes, first=False)

        # Paths with their newest text, the one touched last at the end.
        seen: dict[str, str] = {}
        asked: dict[str, str] = {}  # path by the id of the call that reads it
        for message in self.messages:
            for part in read_message(message).parts:
                if part.kind == "result" and (path := asked.pop(part.id, None)) is not None and any(part.texts):
                    holder = message if message.get("role") in ("tool", "function") else message["content"][part.block]
                    seen.pop(path, None)
                    seen[path] = _as_text(holder.get("content"))
                if part.kind != "call":
                    continue
                given = record(parsed("".join(part.texts[:1])))
                path = given.text("file_path", "path", "filePath", "filename")
                written = given.text("content", "file_text", "text")
                if not path and (shell := _SHELL_READ.match(given.text("command", "cmd"))):
                    asked[part.id] = shell["path"]
                elif path and not written and re.search("read|view|open|cat", part.name, re.I):
                    asked[part.id] = path
                elif path and (written or path in seen):  # edited: as it was last seen, and the newest file
                    before = seen.pop(path, "")
                    seen[path] = written or before

        # Instructions, by the client or of files, then the newest other files that have room.
        room, newest_first = int(0.5 * (self.room - cost(notes))), list(reversed(seen.items()))
        said = (part for message in self.messages for part in parts_of(message) if part.label == "user")
        texts = dict.fromkeys(part.text for part in said if _INJECTED.search(part.text[:2_000]))
        texts |= dict.fromkeys(f"{path}\n{text}" for path, text in newest_first if _INSTRUCTION_FILE.search(path))
        found = fitted([Part("user", f"Project instructions:\n{text}") for text in texts], room // 2)
        for path, text in [one for one in newest_first if not _INSTRUCTION_FILE.search(one[0])][:5]:
            again = Part("user", f"{path}, read again:\n{text}")
            if estimate_text(text) > 5_000 or cost([*found, again]) > room:
                again = Part("user", f"{path} was read before the summary, and is too large to be shown.\n")
            found += [again] if cost([*found, again]) <= room else []
        return self.view([*notes, *found], first=False)


def cost(parts: Sequence[Part]) -> int:
    """Return the tokens of parts as a reader gets them."""
    return sum(estimate_text(joined([part])) + _FRAME for part in parts)


def newest(groups: Sequence[list[Part]], tokens: int) -> tuple[list[Part], int]:
    """Return the newest groups that fit, the oldest of them clipped; and the first group that is shown."""
    found: list[Part] = []
    for at, group in reversed([*enumerate(groups)]):
        if (size := cost(group)) > tokens:
            if tokens < 40:  # tokens: less is not worth a clipped message
                return found, at + 1
            clipped_group = fitted(group, tokens)
            if not clipped_group and len(group) > 1:  # not even clipped: its newest parts
                clipped_group, _ = newest([[part] for part in group], tokens)
            return [*clipped_group, *found], at
        found, tokens = [*group, *found], tokens - size
    return found, 0


def fitted(parts: Sequence[Part], tokens: int) -> list[Part]:
    """Return the parts, their texts clipped evenly until they fit; nothing where they cannot."""
    if cost(parts) <= tokens:
        return list(parts)
    low, high = 0, max((len(part.text) for part in parts), default=0)
    while high - low > 8:
        middle = (low + high) // 2
        fits = cost([Part(part.label, clipped(part.text, middle)) for part in parts]) <= tokens
        low, high = (middle, high) if fits else (low, middle)
    found = [Part(part.label, clipped(part.text, low)) for part in parts]
    return found if cost(found) <= tokens else []


def mechanical(arm: str, past: Past) -> str:
    """Return the view of an arm that needs neither this package nor a model."""
    if arm == "tail":
        return past.view([])
    if arm == "cliff":
        # The last three steps of the assistant raw; before them texts, calls as one line, short results, newest first.
        steps = [at for at, group in enumerate(past.groups) if any(one.label.startswith("assistant") for one in group)]
        at = steps[-3] if len(steps) >= 3 else 0
        recent, start = newest(past.groups[at:], int(0.6 * past.room))
        old = []
        for group in past.groups[: at + start]:
            short = [part for part in group if part.label != RESULT or len(part.text) <= 500]
            lines = [Part(label, text[:160] if label.startswith(CALLS) else text) for label, text in short]
            old += [lines] if lines else []
        return past.view([], groups=[*old, recent])

    # Masking: old results left out, the newest messages raw, as many of these as bring the view to its tokens.
    found, omitted = "", Part(RESULT, "[old tool result omitted]")
    for share in (0.45, 0.6, 0.75, 0.9):
        recent, start = newest(past.groups, int(share * past.room))
        old = [[part for part in group if part.label != THINKS] for group in past.groups[:start]]
        masked = [[omitted if part.label == RESULT else part for part in group] for group in old]
        text = past.view([], groups=[*masked, recent])
        found = max(found, text, key=estimate_text)
        if estimate_text(found) >= 0.98 * past.tokens:
            break
    return found

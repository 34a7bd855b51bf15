"""The views of all arms of a case, each with as many tokens as this package's view.

Our views are those that the agent would have seen, with summaries by a model, and without one. Messages come one by
one, and each message of the assistant is preceded by a view. Summaries are replayed. A request without a reply is
noted, and a placeholder stands for its summary; what contains a placeholder is not asked. Where no reply tells the
rules of some messages there are none, and of later ones nothing is asked until there is.

Every other arm shows the leading system rows, as a host always sends them. What is left goes to what the arm stands
for, and then to the newest messages; the oldest of these is clipped where it does not fit whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import NamedTuple

import msgspec

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError
from summarizing_context.evaluation.real.recording import Case, Reply, digest
from summarizing_context.evaluation.real.rendering import (
    CALLS,
    RESULT,
    THINKS,
    Message,
    Part,
    clipped,
    instructions_of,
    joined,
    numbered,
    parts_of,
    seen_files,
    text_of,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.prompts import latest

OURS, COMPACT = "ours", "compact"
ARMS = {
    OURS: "this package, summaries by a model",
    "extractive": "this package, no model",
    COMPACT: "one summary of everything by a model, then the newest messages",
    "compact_reread": "the same, with project instructions and the newest files read again",
    "cliff": "a mechanical cut: human and assistant words, calls as one line, short results",
    "masking": "old tool results left out",
    "tail": "only the newest messages",
}

PENDING = "Nothing is recorded for this part of the session yet."
_SMALLEST = 40  # tokens: less is not worth a clipped message
_FRAME = 2  # tokens around a message


class Request(msgspec.Struct, frozen=True):
    """What a model is asked to write."""

    system: str
    user: str
    max_tokens: int
    purpose: str  # the kind of a job of this package, or `compact`
    case: str
    start: int  # first message that it is about
    stop: int  # one past the last

    @property
    def key(self) -> str:
        """Its name: the first characters of the SHA-256 of both texts."""
        return digest(f"{self.system}\0{self.user}")[:20]


class View(NamedTuple):
    """What a reader gets of one arm."""

    text: str
    tokens: int
    digest: str  # SHA-256, hex, of the text


@dataclass
class Built:
    """The views of a case, and the requests that need a reply before there are any."""

    views: dict[str, View] = field(default_factory=dict)
    missing: list[Request] = field(default_factory=list)
    waiting: int = 0  # requests that cannot be asked yet


async def build(
    case: Case,
    messages: Sequence[Message],
    replies: Mapping[str, Reply],
    arms: Sequence[str],
    own: Settings | None = None,
) -> Built:
    """Return the views of these arms. An arm whose replies are not all recorded has none, and its requests are
    missing; while our own view lacks one, no arm has a view, as its tokens are not known."""
    summarizer = _Replayer(case.name, replies)
    async with open_context(_settings(case, own), summarizer=summarizer, count_tokens=estimate_text) as context:
        ours = text_of(await _view_at_cut(context, messages, case.budget))
    missing = sorted(summarizer.missing.values(), key=lambda request: (request.purpose != "segment", request.start))
    built = Built(missing=missing, waiting=len(summarizer.waiting))
    is_whole = not (built.missing or built.waiting)
    past = Past(messages, case.tokens or estimate_text(ours))

    def replied(request: Request) -> str | None:
        if (reply := replies.get(request.key)) is not None:
            return reply.reply
        if request not in built.missing:
            built.missing.append(request)
        return None

    for arm in arms:
        text: str | None = None
        if arm in ("compact", "compact_reread"):
            summary = replied(compact_request(case, messages))
            text = summary and past.compacted(summary, reread=arm == "compact_reread")
        elif not is_whole:
            continue
        elif arm == "ours":
            text = ours
        elif arm == "extractive":
            text = await _extractive(case, past, own)
        elif arm == "cliff":
            text = _cliff(past)
        elif arm == "masking":
            text = masking(past)
        elif arm == "tail":
            text = past.view([])
        if is_whole and text is not None:
            text = _encodable(text)
            built.views[arm] = View(text, estimate_text(text), digest(text))
    return built


class _Replayer:
    """Answers from recorded replies. Notes the requests that have none."""

    recipe = "recorded"

    def __init__(self, case: str, replies: Mapping[str, Reply]) -> None:
        self._case, self._replies = case, replies
        self.missing: dict[str, Request] = {}
        self.waiting: set[str] = set()

    async def summarize(self, job: SummaryJob) -> str:
        """Return the recorded reply, or the placeholder; of rules without a reply there are none."""
        request = Request(job.instructions, job.content, job.max_tokens, job.kind, self._case, job.start, job.stop)
        if (reply := self._replies.get(request.key)) is not None:
            return reply.reply
        follows = job.kind == "rules" and any(other.purpose == "rules" for other in self.missing.values())
        if PENDING in job.content or (follows and request.key not in self.missing):
            self.waiting.add(request.key)
        else:
            self.missing[request.key] = request
        return "none" if job.kind == "rules" else PENDING


async def _view_at_cut(context: SummarizingContext, messages: Sequence[Message], budget: int) -> list[Message]:
    """The view after all messages, with all work of the background done before each view."""
    for message in messages:
        if message.get("role") == "assistant":
            await context.wait_idle()
            await context.next_view(budget, bound_thinking="free")
        await context.add_message(message)
    await context.wait_idle()
    return (await context.next_view(budget, bound_thinking="free")).messages


def _settings(case: Case, own: Settings | None) -> Settings:
    """The shipped settings, or those of the user's, in memory, counting alike on every machine."""
    return replace(
        without_default_cap(own or Settings()),
        summarizer="extractive",  # a model's summaries come from the recording
        store=":memory:",
        session_id="real",
        max_tokens=case.budget,
        idle_after=None,
        breaker_failures=1_000,  # in a row: a request without a reply is no failure of a model
    )


def compact_request(case: Case, messages: Sequence[Message]) -> Request:
    """Return the request to summarize everything before the cut at once."""
    user = _encodable(numbered(messages, longest=1_500)).strip()
    return Request(latest("compaction").render(characters=12_000), user, 4_000, "compact", case.name, 0, len(messages))


class Past:
    """The messages before a cut: leading system rows, and groups of a call with its results.

    `tokens` are those of every view, `room` is what the leading rows leave of them.
    """

    def __init__(self, messages: Sequence[Message], tokens: int) -> None:
        roles = [message.get("role") for message in messages]
        rows = next((at for at, role in enumerate(roles) if role not in ("system", "developer")), len(roles))
        self.messages, self.tokens = messages, tokens
        self.leading = [part for message in messages[:rows] for part in parts_of(message)]
        self.room = max(0, tokens - cost(self.leading))
        self.groups: list[list[Part]] = []
        for message in messages[rows:]:
            parts = parts_of(message)
            if self.groups and parts and all(part.label == RESULT for part in parts):
                self.groups[-1] += parts
            else:
                self.groups.append(parts)

    def view(self, notes: Sequence[Part], *, groups: Sequence[list[Part]] | None = None, first: bool = True) -> str:
        """Return leading rows, the first request of the human clipped to a fifth, notes, and the newest groups that
        fit."""
        groups = self.groups if groups is None else groups
        notes = fitted(notes, self.room)
        asked = next((group for group in self.groups if group and group[0].label == "user"), []) if first else []
        head = [*self.leading, *fitted(asked, int(0.2 * self.room)), *notes]
        tail, start = newest(groups, self.tokens - cost(head))
        if start == 0 and first:  # the tail holds the first request
            head = [*self.leading, *notes]
            tail, start = newest(groups, self.tokens - cost(head))
        return joined([*head, *tail])

    def compacted(self, summary: str, *, reread: bool = False) -> str:
        """Return one summary of everything and the newest messages; `reread` brings back what an agent reads again:
        project instructions, then the newest files; a file that is too large, or does not fit, by its path only."""
        title = "This session continues an earlier conversation that ran out of context. Summary of it:"
        notes = [Part("user", f"{title}\n{summary}")]
        if reread:
            room = int(0.5 * (self.room - cost(notes)))
            texts = [Part("user", f"Project instructions:\n{text}") for text in instructions_of(self.messages)]
            found = fitted(texts, room // 2)
            for path, text in seen_files(self.messages)[:5]:
                part = Part("user", f"{path}, read again:\n{text}")
                if estimate_text(text) > 5_000 or cost([*found, part]) > room:
                    part = Part("user", f"{path} was read before the summary, and is too large to be shown.\n")
                found += [part] if cost([*found, part]) <= room else []
            notes += found
        return self.view(notes, first=False)


def cost(parts: Sequence[Part]) -> int:
    """Return the tokens of parts as a reader gets them."""
    return sum(estimate_text(joined([part])) + _FRAME for part in parts)


def newest(groups: Sequence[list[Part]], tokens: int) -> tuple[list[Part], int]:
    """Return the newest groups that fit, the oldest of them clipped; and the first group that is shown."""
    found: list[Part] = []
    for at in range(len(groups) - 1, -1, -1):
        size = cost(groups[at])
        if size > tokens:
            if tokens < _SMALLEST:
                return found, at + 1
            clipped_group = fitted(groups[at], tokens)
            if not clipped_group and len(groups[at]) > 1:  # not even clipped: its newest parts
                clipped_group, _ = newest([[part] for part in groups[at]], tokens)
            return [*clipped_group, *found], at
        found = [*groups[at], *found]
        tokens -= size
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


async def _extractive(case: Case, past: Past, own: Settings | None) -> str:
    """Our view without a model, what it leaves free filled with the end of what stands before its tail.

    The view at the cut is taken if it fits closely. Else other budgets are tried, each as after a restart.
    """
    best, start = "", len(past.messages)
    async with open_context(_settings(case, own), count_tokens=estimate_text) as context:
        view = await _view_at_cut(context, past.messages, case.budget)
        low, high, budget = 0.0, 0.0, float(case.budget)
        for tried in range(10):
            text = text_of(view)
            size = estimate_text(text)
            if size <= past.tokens and size > estimate_text(best):
                explained = context.explain(drops=False)
                best, start = text, explained[-1].stop if explained else 0
            if past.tokens * 0.98 <= size <= past.tokens:
                break
            low, high = (max(low, budget), high) if size <= past.tokens else (low, min(high or budget, budget))
            elsewhere = min(4.0, max(0.25, (0.99 * past.tokens / max(1, size)) ** 1.5))  # a view follows it slowly
            budget = (low * high) ** 0.5 if low and high else budget * elsewhere
            try:
                provider = SimpleNamespace(name=f"try-{tried}")
                view = await context.get_messages_for_request(token_budget=round(budget), provider=provider)
            except BudgetError:
                break
    older = [part for message in past.messages[:start] for part in parts_of(message)]
    room = past.tokens - estimate_text(best) - 2 * _FRAME
    if room < _SMALLEST or not older:
        return best
    filling, _ = newest([[part] for part in older], room)
    return f"{best}\n\n{joined(filling)}" if filling else best


def masking(past: Past) -> str:
    """Return old results masked, the newest messages raw: as many of these as bring the view to its tokens."""
    found = ""
    for share in (0.45, 0.6, 0.75, 0.9):
        recent, start = newest(past.groups, int(share * past.room))
        masked = [
            [Part(RESULT, "[old tool result omitted]") if part.label == RESULT else part for part in group
             if part.label != THINKS]
            for group in past.groups[:start]
        ]  # fmt: skip
        text = past.view([], groups=[*masked, recent])
        found = max(found, text, key=estimate_text)
        if estimate_text(found) >= 0.98 * past.tokens:
            break
    return found


def _cliff(past: Past) -> str:
    """The last three steps of the assistant raw; before them words in full, calls as one line and short results, from
    the newest back."""
    steps = [at for at, group in enumerate(past.groups) if any(part.label.startswith("assistant") for part in group)]
    at = steps[-3] if len(steps) >= 3 else 0
    recent, start = newest(past.groups[at:], int(0.6 * past.room))
    old = []
    for group in past.groups[: at + start]:
        short = [part for part in group if part.label != RESULT or len(part.text) <= 500]
        old.append([Part(label, text[:160]) if label.startswith(CALLS) else Part(label, text) for label, text in short])
    return past.view([], groups=[*(group for group in old if group), recent])


def _encodable(text: str) -> str:
    """The text with question marks in the place of half characters, as its file holds it."""
    return text.encode("utf8", "replace").decode()

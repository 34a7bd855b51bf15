"""The views of all arms of a case, each with as many tokens as this package's view.

Every arm shows the leading system rows, as a host always sends them. What is left goes to what the arm stands for, and
then to the newest messages; the oldest of these is clipped where it does not fit whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from summarizing_context.evaluation.real.recording import Case, Reply, cut_at, digest
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
    tokens_of,
)
from summarizing_context.evaluation.real.views import Request, Summary, extractive_view, our_view
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prompts import latest, load

OURS, COMPACT = "ours", "compact"
ARMS = {
    OURS: "this package, summaries by a model",
    "extractive": "this package, no model",
    COMPACT: "one summary of everything by a model, then the newest messages",
    "compact_reread": "the same, with project instructions and the newest files read again",
    "compact_thrice": "the same, summarized at a third and at two thirds of the log before",
    "cliff": "a mechanical cut: human and assistant words, calls as one line, short results",
    "masking": "old tool results left out",
    "tail": "only the newest messages",
    "leaves": "all segment summaries that fit, then the newest messages",
    "brief": "the same summaries merged once, then the newest messages",
}
# How one summary drifts, and references for the design.
OPTIONAL = ("compact_thrice", "leaves", "brief")
USUAL = tuple(arm for arm in ARMS if arm not in OPTIONAL)

_SMALLEST = 40  # tokens: less is not worth a clipped message
_FRAME = 2  # tokens around a message


@dataclass(frozen=True)
class View:
    """What a reader gets of one arm."""

    text: str

    @cached_property
    def tokens(self) -> int:
        """Its tokens by the built-in estimate."""
        return tokens_of(self.text)

    @cached_property
    def digest(self) -> str:
        """SHA-256, hex, of its text."""
        return digest(self.text)


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
    ours = await our_view(case, messages, replies, own)
    built = Built(missing=list(ours.missing), waiting=ours.waiting)
    is_whole = not (ours.missing or ours.waiting)
    past = Past(messages, case.tokens or tokens_of(ours.text))

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
        elif arm == "compact_thrice":  # each summary is of the one before and of what was said since
            summary, start = "", 0
            for stop in (cut_at(messages, 1 / 3), cut_at(messages, 2 / 3), len(messages)):
                before = f"Summary of the conversation so far:\n{summary}\n" if summary else ""
                summary = replied(_compaction("compact_again", case, messages, start, stop, before))
                if summary is None:
                    break
                start = stop
            text = summary and past.compacted(summary)
        elif not is_whole:
            continue
        elif arm == "ours":
            text = ours.text
        elif arm == "extractive":
            text = await _extractive(case, past, own)
        elif arm == "leaves":
            text = _leaves(past, ours.leaves)
        elif arm == "brief" and ours.leaves:
            user = "\n\n".join(
                f"Summary of messages {leaf.start}-{leaf.stop - 1}:\n{leaf.text}" for leaf in ours.leaves
            )
            system = load("brief/v1").render_for_rank(9, max_tokens=2_000)  # as it was recorded
            brief = replied(Request(system, user, 2_000, "brief", case.name, 0, ours.leaves[-1].stop))
            text = brief and past.view([Part("user", f"Summary of the earlier part of this session:\n{brief}")])
        elif arm == "cliff":
            text = _cliff(past)
        elif arm == "masking":
            text = _masking(past)
        elif arm == "tail":
            text = past.view([])
        if is_whole and text is not None:
            built.views[arm] = View(_encodable(text))
    return built


def compact_request(case: Case, messages: Sequence[Message]) -> Request:
    """Return the request to summarize everything before the cut at once."""
    return _compaction("compact", case, messages, 0, len(messages))


def _compaction(
    purpose: str, case: Case, messages: Sequence[Message], start: int, stop: int, before: str = ""
) -> Request:
    user = _encodable(before + numbered(messages[start:stop], longest=1_500, first=start)).strip()
    return Request(latest("compaction").render(characters=12_000), user, 4_000, purpose, case.name, start, stop)


@dataclass(frozen=True)
class Past:
    """The messages before a cut, by groups of a call with its results."""

    messages: Sequence[Message]
    tokens: int  # of every view

    @cached_property
    def leading(self) -> list[Part]:
        """The system rows at the beginning."""
        return [part for message in self.messages[: self._rows] for part in parts_of(message)]

    @cached_property
    def _rows(self) -> int:
        roles = [message.get("role") for message in self.messages]
        return next((at for at, role in enumerate(roles) if role not in ("system", "developer")), len(roles))

    @cached_property
    def room(self) -> int:
        """Tokens that the leading rows leave."""
        return max(0, self.tokens - cost(self.leading))

    @cached_property
    def groups(self) -> list[list[Part]]:
        """What follows the leading rows."""
        found: list[list[Part]] = []
        for message in self.messages[self._rows :]:
            parts = parts_of(message)
            if found and parts and all(part.label == RESULT for part in parts):
                found[-1] += parts
            else:
                found.append(parts)
        return found

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
                if tokens_of(text) > 5_000 or cost([*found, part]) > room:
                    part = Part("user", f"{path} was read before the summary, and is too large to be shown.\n")
                found += [part] if cost([*found, part]) <= room else []
            notes += found
        return self.view(notes, first=False)


def cost(parts: Sequence[Part]) -> int:
    """Return the tokens of parts as a reader gets them."""
    return sum(tokens_of(joined([part])) + _FRAME for part in parts)


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
    """Our view without a model, what it leaves free filled with the end of what stands before its tail."""
    text, start = await extractive_view(case, past.messages, past.tokens, own)
    older = [part for message in past.messages[:start] for part in parts_of(message)]
    room = past.tokens - tokens_of(text) - 2 * _FRAME
    if room < _SMALLEST or not older:
        return text
    filling, _ = newest([[part] for part in older], room)
    return f"{text}\n\n{joined(filling)}" if filling else text


def _leaves(past: Past, leaves: Sequence[Summary]) -> str:
    kept: list[str] = []
    room = int(0.65 * past.room)
    for leaf in reversed(leaves):
        text = f'<summary messages="{leaf.start}-{leaf.stop - 1}">\n{leaf.text}\n</summary>'
        if (room := room - tokens_of(text)) < 0:
            break
        kept.insert(0, text)
    listed = "\n".join(kept)
    return past.view([Part("user", f"Summaries of the earlier parts of this session, oldest first:\n{listed}")])


def _masking(past: Past) -> str:
    """Old results masked, the newest messages raw: as many of these as bring the view to its tokens."""
    found = ""
    for share in (0.45, 0.6, 0.75, 0.9):
        recent, start = newest(past.groups, int(share * past.room))
        masked = [
            [Part(RESULT, "[old tool result omitted]") if part.label == RESULT else part for part in group
             if part.label != THINKS]
            for group in past.groups[:start]
        ]  # fmt: skip
        text = past.view([], groups=[*masked, recent])
        found = max(found, text, key=tokens_of)
        if tokens_of(found) >= 0.98 * past.tokens:
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

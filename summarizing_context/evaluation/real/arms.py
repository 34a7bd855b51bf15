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
from summarizing_context.evaluation.real.views import OurView, Request, Summary, extractive_view, our_view
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

_COMPACT_CHARACTERS, _COMPACT_TOKENS = 12_000, 4_000
_LONGEST = 1_500  # characters of a text that is read for a compaction
_SUMMARIZED_AT = (1 / 3, 2 / 3, 1)  # of the characters, where one summary replaces everything again and again
_BRIEF_TOKENS, _BRIEF_PROMPT = 2_000, "brief/v1"  # as it was recorded
# shares of what the leading rows leave
_LEAVES_SHARE = 0.65
_FIRST_SHARE = 0.2  # the first request, where an arm keeps it
_RAW_SHARES = (0.45, 0.6, 0.75, 0.9)  # where older results are masked
_CLOSE = 0.98  # of the tokens of this package's view
_STEPS = 3  # of the assistant that a mechanical cut leaves whole
_STEPS_SHARE = 0.6
_SHORT_RESULT, _CALL_LINE = 500, 160  # characters
_REREAD_SHARE = 0.5  # of what the summary leaves
_LARGEST_FILE, _MOST_FILES = 5_000, 5  # tokens, files
_SMALLEST = 40  # tokens: less is not worth a clipped message
_OMITTED = "[old tool result omitted]"
_FRAME = 2  # tokens around a message


@dataclass(frozen=True)
class View:
    """What a reader gets of one arm."""

    text: str

    @cached_property
    def tokens(self) -> int:
        return tokens_of(self.text)

    @cached_property
    def digest(self) -> str:
        return digest(self.text)


@dataclass
class Built:
    """The views of a case, and the requests that need a reply before all of them are right."""

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
    """The views of these arms. An arm whose replies are not all recorded has none, and its requests are missing."""
    ours = await our_view(case, messages, replies, own)
    built = Built(missing=list(ours.missing), waiting=ours.waiting)
    past = Past(messages, case.tokens or tokens_of(ours.text))
    texts: dict[str, str | None] = {}
    for arm in arms:
        match arm:
            case "ours":
                texts[arm] = None if ours.missing or ours.waiting else ours.text
            case "extractive":
                texts[arm] = await _extractive(case, past, own)
            case "compact" | "compact_reread":
                reply = _replied(compact_request(case, messages), replies, built)
                texts[arm] = reply and _compacted(past, reply, reread=arm == "compact_reread")
            case "compact_thrice":
                reply = _compacted_again(case, messages, replies, built)
                texts[arm] = reply and _compacted(past, reply, reread=False)
            case "leaves":
                texts[arm] = None if ours.missing else _leaves(past, ours.leaves)
            case "brief":
                brief = (
                    None if ours.missing or not ours.leaves else _replied(_brief_request(case, ours), replies, built)
                )
                texts[arm] = brief and past.view([_note("Summary of the earlier part of this session:", brief)])
            case "cliff":
                texts[arm] = _cliff(past)
            case "masking":
                texts[arm] = _masking(past)
            case "tail":
                texts[arm] = past.view([])
    if not (ours.missing or ours.waiting):  # else the tokens are not those of a view of this package
        built.views = {arm: View(_encodable(text)) for arm, text in texts.items() if text is not None}
    return built


@dataclass(frozen=True)
class Past:
    """The messages before a cut, by groups of a call with its results."""

    messages: Sequence[Message]
    tokens: int  # of every view

    @cached_property
    def leading(self) -> list[Part]:
        """The system rows at the beginning."""
        found: list[Part] = []
        for message in self.messages:
            if message.get("role") not in ("system", "developer"):
                break
            found += parts_of(message)
        return found

    @cached_property
    def room(self) -> int:
        """Tokens that the leading rows leave."""
        return max(0, self.tokens - cost(self.leading))

    @cached_property
    def groups(self) -> list[list[Part]]:
        """What follows the leading rows."""
        found: list[list[Part]] = []
        leading = True
        for message in self.messages:
            leading = leading and message.get("role") in ("system", "developer")
            if leading:
                continue
            parts = parts_of(message)
            if found and parts and all(part.label == RESULT for part in parts):
                found[-1] += parts
            else:
                found.append(parts)
        return found

    @cached_property
    def first(self) -> list[Part]:
        """The first request of the human, clipped where it is long."""
        group = next((group for group in self.groups if group and group[0].label == "user"), [])
        return fitted(group, int(_FIRST_SHARE * self.room))

    def view(self, notes: Sequence[Part], *, groups: Sequence[list[Part]] | None = None, first: bool = True) -> str:
        """Leading rows, the first request, notes, and the newest groups that fit."""
        groups = self.groups if groups is None else groups
        notes = fitted(notes, self.room)
        head = [*self.leading, *(self.first if first else ()), *notes]
        tail, start = newest(groups, self.tokens - cost(head))
        if start == 0 and first:  # the tail holds the first request
            head = [*self.leading, *notes]
            tail, start = newest(groups, self.tokens - cost(head))
        return joined([*head, *tail])


def cost(parts: Sequence[Part]) -> int:
    """Tokens of parts as a reader gets them."""
    return sum(tokens_of(joined([part])) + _FRAME for part in parts)


def newest(groups: Sequence[list[Part]], tokens: int) -> tuple[list[Part], int]:
    """The newest groups that fit, the oldest of them clipped; and the first group that is shown."""
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
    """The parts, their texts clipped evenly until they fit; nothing where they cannot."""
    if cost(parts) <= tokens:
        return list(parts)
    low, high = 0, max((len(part.text) for part in parts), default=0)
    while high - low > 8:
        middle = (low + high) // 2
        fits = cost([Part(part.label, clipped(part.text, middle)) for part in parts]) <= tokens
        low, high = (middle, high) if fits else (low, middle)
    found = [Part(part.label, clipped(part.text, low)) for part in parts]
    return found if cost(found) <= tokens else []


def compact_request(case: Case, messages: Sequence[Message]) -> Request:
    """The request to summarize everything before the cut at once."""
    system = latest("compaction").render(characters=_COMPACT_CHARACTERS)
    user = _encodable(numbered(messages, longest=_LONGEST)).strip()
    return Request(system, user, _COMPACT_TOKENS, "compact", case.name, 0, len(messages))


def _compacted_again(case: Case, messages: Sequence[Message], replies: Mapping[str, Reply], built: Built) -> str | None:
    """The last of three summaries, each of the one before and of what was said since; None while one is missing."""
    system = latest("compaction").render(characters=_COMPACT_CHARACTERS)
    summary: str | None = ""
    start = 0
    for share in _SUMMARIZED_AT:
        stop = cut_at(messages, share) if share < 1 else len(messages)
        before = f"Summary of the conversation so far:\n{summary}\n" if summary else ""
        user = _encodable(before + numbered(messages[start:stop], longest=_LONGEST, first=start)).strip()
        request = Request(system, user, _COMPACT_TOKENS, "compact_again", case.name, start, stop)
        if (summary := _replied(request, replies, built)) is None:
            return None
        start = stop
    return summary


def _brief_request(case: Case, ours: OurView) -> Request:
    """The request to merge all segment summaries."""
    system = load(_BRIEF_PROMPT).render_for_rank(9, max_tokens=_BRIEF_TOKENS)
    user = "\n\n".join(f"Summary of messages {leaf.start}-{leaf.stop - 1}:\n{leaf.text}" for leaf in ours.leaves)
    stop = ours.leaves[-1].stop if ours.leaves else 0
    return Request(system, user, _BRIEF_TOKENS, "brief", case.name, 0, stop)


def _replied(request: Request, replies: Mapping[str, Reply], built: Built) -> str | None:
    if (reply := replies.get(request.key)) is not None:
        return reply.reply
    if request not in built.missing:
        built.missing.append(request)
    return None


def _note(title: str, text: str) -> Part:
    return Part("user", f"{title}\n{text}")


async def _extractive(case: Case, past: Past, own: Settings | None) -> str:
    """Our view without a model, what it leaves free filled with the end of what stands before its tail."""
    text, start = await extractive_view(case, past.messages, past.tokens, own)
    older = [part for message in past.messages[:start] for part in parts_of(message)]
    room = past.tokens - tokens_of(text) - 2 * _FRAME
    if room < _SMALLEST or not older:
        return text
    filling, _ = newest([[part] for part in older], room)
    return f"{text}\n\n{joined(filling)}" if filling else text


def _compacted(past: Past, summary: str, *, reread: bool) -> str:
    title = "This session continues an earlier conversation that ran out of context. Summary of it:"
    notes = [_note(title, summary)]
    if reread:
        notes += _read_again(past, int(_REREAD_SHARE * (past.room - cost(notes))))
    return past.view(notes, first=False)


def _read_again(past: Past, tokens: int) -> list[Part]:
    """Project instructions, then the newest files; a file that is too large, or does not fit, by its path only."""
    found = fitted([_note("Project instructions:", text) for text in instructions_of(past.messages)], tokens // 2)
    for path, text in seen_files(past.messages)[:_MOST_FILES]:
        part = _note(f"{path}, read again:", text)
        if tokens_of(text) > _LARGEST_FILE or cost([*found, part]) > tokens:
            part = _note(f"{path} was read before the summary, and is too large to be shown.", "")
        found += [part] if cost([*found, part]) <= tokens else []
    return found


def _leaves(past: Past, leaves: Sequence[Summary]) -> str:
    kept: list[str] = []
    room = int(_LEAVES_SHARE * past.room)
    for leaf in reversed(leaves):
        text = f'<summary messages="{leaf.start}-{leaf.stop - 1}">\n{leaf.text}\n</summary>'
        if (room := room - tokens_of(text)) < 0:
            break
        kept.insert(0, text)
    return past.view([_note("Summaries of the earlier parts of this session, oldest first:", "\n".join(kept))])


def _masking(past: Past) -> str:
    """Old results masked, the newest messages raw: as many of these as bring the view to its tokens."""
    found = ""
    for share in _RAW_SHARES:
        recent, start = newest(past.groups, int(share * past.room))
        masked = [
            [Part(RESULT, _OMITTED) if part.label == RESULT else part for part in group if part.label != THINKS]
            for group in past.groups[:start]
        ]
        text = past.view([], groups=[*masked, recent])
        found = max(found, text, key=tokens_of)
        if tokens_of(found) >= _CLOSE * past.tokens:
            break
    return found


def _cliff(past: Past) -> str:
    """The last steps raw; before them words in full, calls as one line and short results, from the newest back."""
    steps = [at for at, group in enumerate(past.groups) if any(part.label.startswith("assistant") for part in group)]
    at = steps[-_STEPS] if len(steps) >= _STEPS else 0
    recent, start = newest(past.groups[at:], int(_STEPS_SHARE * past.room))
    old = [[line for part in group if (line := _line(part))] for group in past.groups[: at + start]]
    return past.view([], groups=[*(group for group in old if group), recent])


def _line(part: Part) -> Part | None:
    if part.label == RESULT:
        return part if len(part.text) <= _SHORT_RESULT else None
    return Part(part.label, part.text[:_CALL_LINE]) if part.label.startswith(CALLS) else part


def _encodable(text: str) -> str:
    """The text with question marks in the place of half characters, as its file holds it."""
    return text.encode("utf8", "replace").decode()

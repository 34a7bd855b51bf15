"""Drive a context and judge every view of it by all laws at once; each test asserts that what it is about happened."""

import marshal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple

from summarizing_context import Settings, message_text_parts, open_context
from summarizing_context.errors import BudgetError

from . import shapes
from .builders import Message, count
from .checkers import Tail, find_tail, order_problems, prefix_problems, tail_problems, tool_safe_problems, view_tokens
from .places import kept_at
from .repairs import ALL_REPAIRS
from .shapes import answered_ids, called_ids, canonical_once, copied, interrupts, read_log, sendable

REASONS = {
    "high_water", "budget_lowered", "budget_raised", "provider_changed", "system_changed", "log_replaced", "idle",
    "explicit", "restored", "task_end",
}  # fmt: skip
IMAGE_TOKENS = 1600
STAND_IN_TOKENS = 10  # at least, of a stand-in result
OTHER_ROOM = 1.5  # times as much room: another view
SMALL = {"segment_min": 200, "segment_target": 400, "segment_max": 800, "summary_max_tokens": 40}
TINY = {"segment_min": 50, "segment_target": 150, "segment_max": 300, "summary_max_tokens": 16}


class LawBroken(AssertionError):
    """One or more laws do not hold; the message lists them."""


class Shown(NamedTuple):
    """A view, or the beginning of one."""

    rows: list[Message]
    entries: int  # of the log that it shows: those that came later are not in it
    name: str | None = None  # that records of its activations have, once it is known


class Judge:
    """A context under watch. Its own copy of the log is what the context's log must equal."""

    reopen: Callable[[], Awaitable[None]]  # close the session and open it again; `watched` sets it

    def __init__(
        self,
        context: Any,
        *,
        budget: int,
        repairs: frozenset[str] = ALL_REPAIRS,
        keeps: bool = False,
        count: Callable[[str], int] = count,
    ) -> None:
        self.context, self.count = context, count  # tokens of a text, as the context counts them
        self.budget = self.least = budget  # the smallest budget that a view had may still be seen in later ones
        self.thorough = 1  # every how manieth view is compared with the whole log
        self.repairs_allowed = repairs
        self.keeps = keeps  # whether covered groups may stand word for word before the tail
        self.log: list[Message] = []
        self.loaded = 0  # entries of an earlier process
        self.interrupted: list[int] = []  # before these entries requests have given up what waited
        self._unsure = False  # an earlier process has: whether this one knows is the next view's to tell
        self.views = self.refused = self.covered = self.in_tail = self.activations = 0
        self.repairs: Counter[str] = Counter()
        self.last: list[Message] = []
        self.shown: dict[tuple[str, int], Shown] = {}  # of each provider and room that with which the next must begin
        self._activations_before = 0
        self._name: str | None = None  # of the view that was shown last
        self._replaced = False
        self._prices: dict[str, int] = {}
        self._rows: dict[bytes, Message] = {}

    async def add(self, *messages: Mapping[str, Any]) -> None:
        for message in messages:
            mine = copied(dict(message))
            given = copied(mine)
            await self.context.add_message(given)
            self.log.append(mine)
            vandalise(given)

    async def set(self, messages: list[Message]) -> None:
        """An empty log is set by `clear`."""
        given = copied(messages)
        await (self.context.set_messages(given) if given else self.context.clear())
        before, self.log = self.log, copied(messages)
        self.replaced(before)
        vandalise(given)

    def closing(self) -> None:
        """Before the context is closed. A log that was replaced and not shown since may have no earlier view: the
        activation state went with the old log, or is lost where it could not be kept; of an empty log none is kept."""
        if self._replaced or not self.log or self.context.statistics().activations > self._activations_before:
            self.untold()

    def untold(self) -> None:
        """An activation may have happened that no view has told: the next views may begin anew."""
        self.shown = {}

    def replaced(self, before: list[Message]) -> None:
        """The log was replaced, or may have been: views stay as they were up to the first difference; with an empty log
        nothing is kept of them."""
        self.shown = {key: self._begun(shown, before) for key, shown in self.shown.items()} if self.log else {}
        same = _same(before, self.log)
        self.loaded, self.interrupted = min(self.loaded, same), [at for at in self.interrupted if at <= same]
        self._replaced = True

    def _begun(self, shown: Shown, before: list[Message]) -> Shown:
        """With what the next view has to begin though the log is another one from some entry on: what stands before the
        raw tail, and the untouched messages of that up to the difference."""
        view, known = shown.rows, before[: shown.entries]
        same, tail = _same(known, self.log), find_tail(view, known, self.interrupted)
        rows, at = (0, same) if isinstance(tail, str) else (tail.view_start, tail.log_start)
        while at < same and rows < len(view) and canonical_once(view[rows]) == canonical_once(known[at]):
            rows, at = rows + 1, at + 1
        return Shown(view[:rows], at, shown.name)

    def reopened(self, context: Any) -> None:
        """Go on with another context of the same session; its counters begin at zero."""
        self.context, self._activations_before = context, 0
        self.loaded, self._unsure = len(self.log), bool(self.interrupted)

    async def check_log(self) -> None:
        kept = await self.context.get_messages()
        if kept != self.log:
            same = _same(kept, self.log)
            raise LawBroken(f"log_is_untouched: {len(kept)} entries, {len(self.log)} were given; {same} are alike")
        vandalise(kept)

    async def live(self, log: Sequence[Message], every: int = 1) -> None:
        """Add each message, and judge the view behind every so manieth and the last."""
        for number, message in enumerate(log):
            await self.add(message)
            if number % every == 0 or number == len(log) - 1:
                await self.view()

    async def view(self, budget: int | None = None, provider: Any = None) -> list[Message]:
        """Get a view and judge it; [] when it was rightly refused."""
        wanted, key = budget or self.budget, "" if provider is None else str(provider.name)
        self.least = min(self.least, wanted if provider is None else wanted // 2)  # its usage lowers its budget
        asked = (wanted,) if provider is None else (None, provider)
        try:
            view: list[Message] = await self.context.get_messages_for_request(*asked)
        except BudgetError as error:
            self.refused += 1
            if (needed := self._price_of_system()) + 40 <= error.budget_tokens:
                raise LawBroken(f"within_budget: refused though system rows need only {needed}: {error}") from error
            return []
        own = [self._own(row) for row in view]
        self.views += 1
        self._note_interruption(own)
        if problems := self._problems(own, wanted, key):
            self._tell(own, key)
            raise LawBroken("; ".join(problems))
        vandalise(view)
        self.last, self.shown[key, self._room()] = own, Shown(own, len(self.log), self._name)
        self._replaced = False
        return own

    def _tell(self, view: list[Message], key: str) -> None:
        """Print what is needed to trace a broken law: random sessions do not repeat by their seed."""
        told = {f"shown before to {one}, of {shown.entries} entries": shown.rows for one, shown in self.shown.items()}
        for title, rows in (told | {f"now to {(key, self._room())}": view, "log": self.log}).items():
            print(f"{title}:", *(f"  {at}: {str(row)[:240]}" for at, row in enumerate(rows)), sep="\n")
        print(f"interrupted {self.interrupted}, loaded {self.loaded}, last {self.context.last_view}")
        print(*self.context.activations()[-5:], sep="\n")

    def _note_interruption(self, view: list[Message]) -> None:
        """A request gives up what it cannot wait for. An earlier process may have done so before anything was kept of
        its views: then the first view of this one, an activation, shows results in their places again."""
        ways = [known + interrupts(self.log, self.loaded, known) for known in (self.interrupted, [])]
        if self._unsure and isinstance(find_tail(view, self.log, ways[0]), str):
            ways = ways if isinstance(find_tail(view, self.log, ways[1]), str) else ways[1:]
        self._unsure, self.interrupted = False, ways[0]

    def _own(self, row: Message) -> Message:
        """A copy; of rows with the same bytes always the same one, so that it is read once only."""
        try:
            told = marshal.dumps(row, 2)  # tells 1, 1.0 and True apart, and the order of keys
        except ValueError:
            return copied(row)
        if told not in self._rows:
            if len(self._rows) > 20_000:
                self._rows.clear()
            self._rows[told] = copied(row)
        return self._rows[told]

    def _problems(self, view: list[Message], budget: int, key: str) -> list[str]:
        problems = [f"tool_safe: {p}" for p in tool_safe_problems(view)]
        if self.views % self.thorough == 0:
            problems += [f"conversation_order: {p}" for p in order_problems(view, self.log)]
            problems += self._tail_problems(view)
        tokens, shown = sum(map(self._price, view)), self.context.last_view
        if tokens > budget or (shown is not None and shown.tokens != tokens):
            problems.append(f"within_budget: {tokens} tokens at a budget of {budget}; the last view is {shown}")
        return problems + self._prefix_problems(view, key)

    def _tail_problems(self, view: list[Message]) -> list[str]:
        tail, problems = find_tail(view, self.log, self.interrupted), []
        if isinstance(tail, Tail):
            self.covered = max(self.covered, tail.log_start)
            self.in_tail += len(view) - tail.view_start
            self.repairs.update(tail.repairs)
            if tail.alone and not self._is_too_large(*tail.alone):
                problems = [f"newest_message_present: the group of log entries {tail.alone} could be shown whole"]
        elif self.log and self._is_too_large(*read_log(self.log).atoms[-1]):
            tail = Tail(len(view), len(self.log), Counter())  # there may be none
        problems += tail_problems(view, self.log, self.repairs_allowed, tail=tail, keeps=self.keeps)
        return [f"tail_is_untouched: {p}" for p in problems]

    def _is_too_large(self, start: int, stop: int) -> bool:
        """Only then may the newest group not be shown, or its newest messages alone: not even shrunk do its
        messages, with stand-ins for calls that were given up, fit a group's share."""
        rows = self.log[start:stop]
        least = [68 * max(1, len(called_ids(row)) + len(answered_ids(row))) for row in rows]
        needed = sum(min(tokens, self._price(row)) for row, tokens in zip(rows, least, strict=True))
        groups = read_log(sendable(self.log), self.interrupted).groups
        given_up = [groups[at].waiting for at in range(start, stop) if at in groups and groups[at].abandoned]
        room = self.least - self._price_of_system()
        return needed + STAND_IN_TOKENS * sum(map(len, given_up)) > 0.4 * room

    def _price(self, row: Message) -> int:
        key = canonical_once(row)
        if key not in self._prices:
            self._prices[key] = view_tokens([row], self.count, IMAGE_TOKENS, message_text_parts)
        return self._prices[key]

    def _prefix_problems(self, view: list[Message], key: str) -> list[str]:
        statistics, last = self.context.statistics(), self.context.last_view
        told = last is not None and last.activation is not None
        fresh = statistics.activations - self._activations_before
        self.activations, self._activations_before = self.activations + fresh, statistics.activations
        problems = [f"append_only: unknown reason {one}" for one in statistics.activations_by_reason.keys() - REASONS]
        if fresh > told:
            self.untold()
        room = max(1, self._room())
        near = [(k, r) for k, r in self.shown if k == key and max(r, room) < OTHER_ROOM * max(1, min(r, room))]
        broken = {one: prefix_problems(self.shown[one].rows, view) for one in near}
        # A provider may be shown two views whose rooms are both near to this one: an activation changes that which its
        # record names, and the other goes on.
        first = "" if self.views == 1 and not (key or self.loaded) else None
        self._name = next((self.shown[one].name for one in near if not broken[one]), first)
        if told:
            self._name = self.context.activations()[-1].provider
        gone = {one for one in near if not broken[one] or (told and self.shown[one].name in (None, self._name))}
        self.shown = {one: shown for one, shown in self.shown.items() if one not in gone}
        if near and not told and all(broken.values()):
            problems.append(f"append_only: {broken[near[-1]][0]} without an activation")
        return problems

    def _room(self) -> int:
        """The last request's tokens beside the system rows: at about as many a provider is shown the same view."""
        return int(self.context.budget().max_tokens) - self._price_of_system()

    def _price_of_system(self) -> int:
        return sum(map(self._price, self.log[: shapes.leading_system_rows(self.log)]))


@asynccontextmanager
async def watched(
    summarizer: Any = None, *, budget: int, repairs: frozenset[str] = ALL_REPAIRS, keeps: bool = False, **settings: Any
) -> AsyncIterator[Judge]:
    """A judge over a context with small segments, of which a short log has many; with `reopen` it opens it again."""
    given: Any = {"summarizer": summarizer, "count_tokens": count, "clock": settings.pop("clock", None)}
    options = Settings(**{"max_tokens": budget, "store": kept_at(), **SMALL, **settings})
    async with AsyncExitStack() as doors:

        async def reopen() -> None:
            judge.closing()
            await doors.aclose()
            judge.reopened(await doors.enter_async_context(open_context(options, **given)))

        context = await doors.enter_async_context(open_context(options, **given))
        judge = Judge(context, budget=budget, repairs=repairs, keeps=keeps)
        judge.reopen = reopen
        yield judge


async def replay(judge: Judge, log: Sequence[Mapping[str, Any]]) -> None:
    """Add message by message, with a settled view before each assistant row and one at the end."""
    for message in log:
        if message.get("role") == "assistant" and judge.log:
            await judge.context.wait_idle()
            await judge.view()
        await judge.add(message)
    await judge.context.wait_idle()
    await judge.view()
    await judge.check_log()


def most_passes(segments: int) -> int:
    """floor(log4 segments) + 1."""
    return (segments.bit_length() + 1) // 2


def vandalise(value: Any) -> None:
    """Ruin a value deeply, as a careless caller might."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, dict | list):
                vandalise(item)
        value.clear()
        value.update(role="vandal") if isinstance(value, dict) else value.append("vandal")


def _same(before: Sequence[Message], now: Sequence[Message]) -> int:
    """How many entries two logs begin with alike."""
    different = (at for at, (old, new) in enumerate(zip(before, now, strict=False)) if old != new)
    return next(different, min(len(before), len(now)))

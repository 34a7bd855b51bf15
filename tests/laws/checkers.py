"""Is this view lawful? Each answers with sentences, one for each broken rule; none for a lawful view."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from . import shapes
from .alignment import Tail, align, find_alone
from .grouping import entry_places, has_words, read_log
from .repairs import SHRUNK, explain, is_told_of
from .shapes import Message, answered_ids, called_ids, canonical_once, identity_once, media_count, sendable


def tool_safe_problems(view: Sequence[Message]) -> list[str]:
    """Calls are followed by their results only, all of them; results stand nowhere else; the end may be in flight."""
    return _read_calls(view)[0]


def refusals(rows: Sequence[Message]) -> list[str]:
    """What a provider refuses of a request, which no call in flight may end."""
    problems, waiting = _read_calls(rows)
    return problems + [f"the messages end before the results of {waiting}"] * bool(waiting)


def _read_calls(view: Sequence[Message]) -> tuple[list[str], list[str]]:
    problems: list[str] = []
    waiting: list[str] = []
    for row, message in enumerate(view):
        answers = answered_ids(message)
        if waiting and not answers:
            problems.append(f"row {row} ({message.get('role')}) stands before the results of {waiting}")
            waiting = []
        for identity in answers:
            if identity in waiting:
                waiting.remove(identity)
            else:
                problems.append(f"row {row} answers {identity!r}, which is no waiting call of the message before")
        if answers and waiting and has_words(message):
            problems.append(f"row {row} says more before the results of {waiting}")
        calls = called_ids(message)
        if calls and waiting:
            problems.append(f"row {row} calls while {waiting} wait")
        waiting = list(calls) or waiting
    return problems, waiting


def order_problems(view: Sequence[Message], log: Sequence[Message]) -> list[str]:
    """Rows that equal an entry keep the log's order; inside one group the results stand right after their call."""
    log = sendable(log)
    places, groups = entry_places(log).of_identity, read_log(log).groups
    problems: list[str] = []
    bound, matched = len(log), set[int]()
    for row in range(len(view) - 1, -1, -1):
        found = [] if answered_ids(view[row]) else places.get(identity_once(view[row]), [])
        if earlier := bisect_left(found, bound):
            bound = found[earlier - 1]
            matched.add(row)
        elif found:
            problems.append(f"row {row} is log entry {found[-1]} but stands before log entry {bound}")
    calls: list[int] = []  # those of the entries that equal the last row without results
    for row, message in enumerate(view):
        found = places.get(identity_once(message), [])
        if not answered_ids(message):
            calls = [index for index in found if row in matched and index in groups]
        elif found and calls and not any(index in found for call in calls for index, _ in groups[call].results):
            problems.append(f"row {row} is log entry {found[0]}, which does not answer log entry {calls[0]}")
    return problems


def find_tail(view: Sequence[Message], log: Sequence[Message], interrupted: Collection[int] = ()) -> Tail | str:
    """Where the raw tail begins, or why there is none. `interrupted` is as in `read_log`."""
    log = sendable(log)
    reading = read_log(log, interrupted)
    found = align(view, log, reading)
    alone = find_alone(view, log, reading)
    return found if alone is None or (isinstance(found, Tail) and found.view_start <= alone.view_start) else alone


def tail_problems(
    view: Sequence[Message],
    log: Sequence[Message],
    repairs_allowed: Collection[str],
    *,
    may_be_empty: bool = False,
    tail: Tail | str | None = None,
    keeps: bool = False,
) -> list[str]:
    """The view is: leading system rows, pins and a header, then every newest log entry, untouched but for repairs.

    Pass `tail` when it was found before. With `keeps` any groups may stand before the tail.
    """
    log = sendable(log)
    tail = tail or find_tail(view, log)
    if isinstance(tail, str):
        if not may_be_empty:
            return [tail]
        tail = Tail(len(view), len(log), Counter())
    problems = [f"{count} x {kind}" for kind, count in tail.repairs.items() if kind not in repairs_allowed]
    head = view[: tail.view_start]
    blocks = [row for row in head if row.get("role") == "user" and _said(row).startswith("<standing_rules>\n")]
    problems += [f"{len(blocks)} blocks of standing rules"] * (len(blocks) > 1)
    for number, quote in (rule for row in blocks for rule in _RULE.findall(_said(row))):
        row = log[int(number)] if int(number) < len(log) else {"role": "none"}
        said = " ".join(canonical_once(row).replace("\\n", " ").replace('\\"', '"').split())
        if row.get("role") != "user" or quote not in said:
            problems.append(f"the rule {quote!r} is not in user row {number}")
    # where groups are kept, results stand where tool_safe has them stand, and notes of late ones
    made = [row for row in head if answered_ids(row) or _said(row).startswith("<late_result ")] if keeps else []
    rest = [row for row in head if row not in blocks and row not in made]
    if GOES_ON in rest:  # system rows of the past as one, and an answer behind it
        at = rest.index(GOES_ON)
        said = canonical_once([row.get("content") for row in log if row.get("role") == "system"])
        parts = [part["text"] if part.get("type") == "text" else part for part in rest[at - 1]["content"]]
        if rest[at - 1].get("role") == "system" and all(canonical_once(part)[1:-1] in said for part in parts):
            rest = rest[: at - 1] + rest[at + 1 :]
    return problems + _head_problems(rest, log, tail.log_start, keeps)


GOES_ON = {"role": "assistant", "content": [{"type": "text", "text": "[…]"}]}
_RULE = re.compile(r'^- message (\d+): "(.*?)"$', re.MULTILINE)


def _said(row: Message) -> str:
    return str(row.get("content"))


def _head_problems(head: Sequence[Message], log: Sequence[Message], tail_start: int, keeps: bool) -> list[str]:
    """Before the tail stand only system rows, user rows, critical rows, in log order, and the header."""
    problems: list[str] = []
    covered = log[:tail_start]
    system = shapes.leading_system_rows(covered)
    for index in range(system):
        found = explain(head[index], covered[index]) if index < len(head) else None
        if found is None or SHRUNK in found:
            problems.append(f"leading system row {index} is not shown whole")
    among = range(system, tail_start)
    may_stay = entry_places(log).of_pins
    pins = among if keeps else [at for at in may_stay if at in among]
    headers = _fewest_strangers(head[system:], covered, system, pins)
    for row in range(system, len(head)) if headers and not keeps else ():
        equal = entry_places(log).of_text.get(canonical_once(head[row]), []) if head[row].get("content") else []
        for index in [at for at in equal if at in among and at not in may_stay][:1]:
            role = covered[index].get("role")
            problems.append(f"row {row} before the tail is log entry {index} ({role}), which is no pin")
    allowed = int(keeps or len(covered) > system)  # kept groups may look like the tail
    if headers > allowed:
        problems.append(f"{headers} rows before the tail are no pins in the log's order, {allowed} may be")
    return problems


def _fewest_strangers(rows: Sequence[Message], covered: Sequence[Message], start: int, pins: Sequence[int]) -> int:
    """How many of the rows are no pins, when as many as possible are taken for pins in the log's order."""
    reached = {start: 0}  # first entry that may come next -> strangers so far
    for row in rows:
        shown = [at for at in pins if explain(row, covered[at]) is not None or is_told_of(row, covered[at])]
        after = {place: strangers + 1 for place, strangers in reached.items()}
        for place, strangers in reached.items():
            for index in shown[bisect_left(shown, place) :][:1]:
                after[index + 1] = min(strangers, after.get(index + 1, strangers))
        reached = after
    return min(reached.values())


def goes_on(view: Sequence[Message], then: Sequence[Message]) -> bool:
    """The view is that of then; calls that were in flight at its end have stand-ins, for another process made them."""
    rest = view[len(then) :]
    return list(view[: len(then)]) == list(then) and all("[no result of this call" in str(row) for row in rest)


def view_tokens(
    view: Sequence[Message], count: Callable[[str], int], image_tokens: int, parts: Callable[[Message], list[str]]
) -> int:
    """4 for each message, the sum over its text parts, and a price for each image."""
    return sum(4 + sum(map(count, parts(m))) + image_tokens * media_count(m.get("content")) for m in view)


def prefix_problems(previous: Sequence[Message], view: Sequence[Message]) -> list[str]:
    """The view starts with the previous one, compared as canonical JSON."""
    if len(view) < len(previous):
        return [f"the view has {len(view)} rows, the one before had {len(previous)}"]
    pairs = enumerate(zip(previous, view, strict=False))
    changed = (row for row, (old, new) in pairs if old is not new and canonical_once(old) != canonical_once(new))
    return [f"row {row} of {len(previous)} changed" for row in changed][:1]

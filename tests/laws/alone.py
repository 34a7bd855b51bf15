"""Find the messages of a group too wide to be shown, of which a view shows only the newest.

Written from the words of the law alone: each of them stands by itself, results as notes and calls as their number;
what came before them in the group is left out, what comes behind it is shown as ever.
"""

import re
from collections import Counter
from collections.abc import Sequence

from .alignment import Tail, repairs_of
from .grouping import Reading
from .repairs import LATE_NOTE, SHRUNK, explain, is_late_note
from .shapes import Message, answered_ids, called_ids

COUNT = re.compile(r"\[(\d+) calls? left out\]")
MUTE = re.compile(r"…|\[… \d+ tokens left out …\]|\[\d+ calls? left out\]")


def find_alone(view: Sequence[Message], log: Sequence[Message], reading: Reading) -> Tail | None:
    """The raw tail of a view that begins within a group, if any group of the log explains it."""
    places = [at for at, shown in enumerate(view) if _is_of_no_group(shown)]
    for start, stop in reversed(reading.runs if places else ()):
        for row in places:
            for since in range(max(start, stop - (len(view) - row)), stop):
                alone, behind = log[since:stop], row + stop - since
                if not all(map(_shows_alone, view[row:behind], alone)):
                    continue
                repairs = repairs_of(view, log, reading, (behind, stop))
                if repairs is not None:
                    repairs += Counter(LATE_NOTE if answered_ids(entry) else SHRUNK for entry in alone)
                    return Tail(row, start, repairs, (start, stop))
    return None


def _is_of_no_group(shown: Message) -> bool:
    content = str(shown.get("content"))
    return shown.get("role") == "user" and (content.startswith("<late_result ") or bool(MUTE.fullmatch(content)))


def _shows_alone(shown: Message, entry: Message) -> bool:
    if answers := answered_ids(entry):
        return any(is_late_note(shown, entry, identity) for identity in answers)
    if calls := called_ids(entry):
        told = COUNT.fullmatch(str(shown.get("content")))
        return shown.get("content") == "…" or (told is not None and int(told[1]) == len(calls))
    return explain(shown, entry) is not None

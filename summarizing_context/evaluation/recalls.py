"""What one recall brings back: at each later use of an exact value that the view no longer shows, the agent asks once.

It asks with what it has then: the newest text of the human and its own newest text before the message that uses the
value, never the arguments of the use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from summarizing_context.core.messages import Reading, is_reminder, read_message
from summarizing_context.evaluation.arms.strategies import StrategyArm
from summarizing_context.evaluation.cases.model import Case, Message, Probe
from summarizing_context.evaluation.scoring.figures import Sum
from summarizing_context.evaluation.scoring.texts import Text

TOKENS = 2_000  # of the page
_FOLDER = re.compile(r"(\S*/)\{([^\s{}]+)\}")


async def recalled(arm: StrategyArm, case: Case, probes: Sequence[Probe], budget: int) -> Sum:
    """Of the values that the view at their use does not show, those that the page holds."""
    uses: dict[int, list[Probe]] = {}
    for probe in probes:
        if probe.used_at is not None:
            uses.setdefault(probe.used_at, []).append(probe)
    held = missing = 0
    for at in sorted(uses):
        await arm.feed(at)
        view = await arm.view(budget)
        shown = Text(view.texts if view else ())
        asked = [probe for probe in uses[at] if not shown.holds(probe.literals[0])]
        if asked:
            page = Text([written_out(await arm.recall(query_before(case.messages, at), TOKENS))])
            held += sum(page.holds(probe.literals[0]) for probe in asked)
            missing += len(asked)
    return Sum(held, missing)


def written_out(page: str) -> str:
    """A page with the paths of a folder, `src/{app.py,page.py}`, one by one, as its reader understands them."""
    paths = [f"{folder}{name}" for folder, names in _FOLDER.findall(page) for name in names.split(",")]
    return "\n".join([page, *paths])


def query_before(messages: Sequence[Message], at: int) -> str:
    """The newest words of the human and of the assistant before a message."""
    human = _newest(messages, at, lambda reading: reading.human)
    return f"{human}\n{_newest(messages, at, lambda reading: reading.role == 'assistant')}".strip()


def _newest(messages: Sequence[Message], at: int, wanted: Callable[[Reading], bool]) -> str:
    for message in reversed(messages[:at]):
        reading = read_message(message)
        said = [text for part in reading.parts if part.kind == "text" for text in part.texts if not is_reminder(text)]
        if wanted(reading) and (words := "\n".join(said).strip()):
            return words
    return ""

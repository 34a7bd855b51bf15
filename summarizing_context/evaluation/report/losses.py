"""The part of a report that says where answers are lost, by the four views that a reader was given.

Pure. Full and evidence alone say what the reader itself gets wrong; from the evidence to all that is stored it is the
summaries that lose, and from there to the view it is what the view leaves out.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from summarizing_context.evaluation.arms.table import REFERENCE
from summarizing_context.evaluation.intervals import Interval, difference, mean_of, session_values
from summarizing_context.evaluation.outcomes import RunOutcome

_WAYS = ("everything", "evidence", "stored", REFERENCE)
_FIGURE = "answered"


class Loss(NamedTuple):
    """A share of the questions that is right, or that is lost on the way."""

    name: str
    about: str
    share: Interval


def losses(run: RunOutcome) -> list[Loss]:
    """What the reader gets right from each of the four views, and what is lost between them."""
    values = {arm: session_values(run.sessions, arm, _FIGURE) for arm in _WAYS}
    found = [
        ("right from the whole past", "everything, raw", mean_of(values["everything"])),
        ("right from the evidence", "only the lines that hold the answers", mean_of(values["evidence"])),
        ("right from what is stored", "every segment's own summary", mean_of(values["stored"])),
        ("right from the view", f"what {REFERENCE} sends", mean_of(values[REFERENCE])),
        (
            "lost in a long context",
            "evidence, less the whole past",
            difference(values["evidence"], values["everything"]),
        ),
        ("lost in writing", "evidence, less what is stored", difference(values["evidence"], values["stored"])),
        ("lost in showing", "what is stored, less the view", difference(values["stored"], values[REFERENCE])),
    ]
    return [Loss(name, about, share) for name, about, share in found if share is not None]


def losses_html(run: RunOutcome) -> str:
    """The table as HTML; empty where no reader was asked."""
    rows = "".join(
        f'<tr><td class="words">{escape(loss.name)}</td><td>{loss.share.mean:.1%}<small>{loss.share.low:.1%} – '
        f'{loss.share.high:.1%}</small></td><td class="words soft">{escape(loss.about)}</td></tr>'
        for loss in losses(run)
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""

"""Cases as they may be recorded: nothing of a secret is in their messages, and none is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from summarizing_context.evaluation.cases.model import Case, Probe
from summarizing_context.evaluation.cases.reading import read_session
from summarizing_context.evaluation.cassettes.tape import Cassette
from summarizing_context.messages.validation import Message


def scrub_case(case: Case, cassette: Cassette) -> Case:
    """The case with scrubbed messages. Probes go that hold a secret, or words that stood in secrets only."""
    messages = tuple(map(cassette.scrub, case.messages))
    before, after = _texts(case.messages), _texts(messages)

    def is_clean(probe: Probe) -> bool:
        words = (*probe.literals, *probe.any_of, *probe.forbid)
        lost = any(text in before and text not in after for text in words)
        return not lost and all(cassette.clean(text) == text for text in (probe.question, *words))

    return replace(case, messages=messages, probes=tuple(filter(is_clean, case.probes)))


def _texts(messages: Sequence[Message]) -> str:
    return "\n".join(text for read in read_session(messages) for text in read.texts)

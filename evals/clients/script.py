"""What the scripted model says: a long session of an agent that reads files, step by step, to its end.

A session is cut into legs. A leg ends with words, so that the client stops and is resumed. In one step the reply
pauses in its middle, so that the client can be interrupted there. One step gives a piece of the work to an agent.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SUBTASK = "SUBTASK"  # the first word of what an agent is asked
SEED = 7
FILES = 40  # of the folder that the session works in
SUBTASK_STEPS = 6

COMPACTS = re.compile(  # what a client says that asks the model for a summary of the session
    r"create a (?:detailed |comprehensive )?summary of|CONTEXT CHECKPOINT COMPACTION|detailed prompt for continuing"
    r"|Create a new anchored summary|anchored summary|handoff summary|Provide a detailed"
)

_VERBS = ("parse", "merge", "check", "render", "collect", "resolve", "load", "split", "encode", "order")
_NOUNS = ("header", "invoice", "route", "token", "session", "ledger", "column", "window", "release", "shipment")


class Call(NamedTuple):
    """One call of a tool: `run` a command, hand a `task` to an agent, or `wait` for the agent of that id."""

    id: str
    kind: str
    argument: str
    marker: str = ""  # that its result has to hold


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model."""

    number: int  # of the request that it answers; unique
    text: str
    calls: Sequence[Call] = ()
    pauses: bool = False  # in the middle of its stream, until the client hangs up
    thinks: bool = True

    @property
    def thinking(self) -> str:
        """What the model thought before."""
        return f"Request {self.number}: the next file has to be read before its callers can be judged."


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the session is and where it is cut."""

    steps: int = 100
    cuts: Sequence[int] = ()  # steps behind which a leg ends
    pause: int | None = None  # the step whose reply stops in its middle

    @property
    def final(self) -> str:
        """The last words of the session."""
        return f"FINAL REPORT {SEED * 7919 % 9973}: all {self.steps} steps are done."

    def cut_text(self, step: int) -> str:
        """The words with which a leg ends behind this step."""
        return f"PART DONE at step {step} of {self.steps}."


@dataclass(slots=True)
class Thread:
    """One history that a client holds with the model."""

    is_agent: bool
    step: int = 0
    said_cuts: set[int] = field(default_factory=set)
    waits_for: str = ""  # the agent that was begun and whose answer is still to come
    outstanding: Sequence[Call] = ()
    items: Sequence[str] = ()  # of the last request that was taken
    fixed_tokens: int = 0  # beside them
    last: tuple[str, Turn] | None = None  # the end of the request before, and what was replied


def next_turn(plan: Plan, thread: Thread, number: int, *, waits: bool) -> Turn:
    """Return the next reply in a history; `waits` where the client has a tool of its own to wait for an agent."""
    step, id = thread.step, f"call_{number}_0"
    if thread.is_agent:
        if step >= SUBTASK_STEPS:
            return Turn(number, f"SUBTASK DONE: {_note(number)}")
        thread.step += 1
        call = _run(id, f"agent-{step + 1}", f"cat src/{_file(step + 21)}")
        return Turn(number, f"I look at file {step + 1} of my part.", [call])
    if waits and thread.waits_for:
        agent, thread.waits_for = thread.waits_for, ""
        return Turn(number, "I wait for the agent.", [Call(id, "wait", agent)])
    if step in plan.cuts and step not in thread.said_cuts:
        thread.said_cuts.add(step)
        return Turn(number, f"{plan.cut_text(step)} {_note(step)}")
    if step >= plan.steps:
        return Turn(number, f"{plan.final} {_note(step)}")
    thread.step = step = step + 1
    commands = [f"cat src/{_file(step)}"]
    if step % 10 == 5:
        commands += [f"grep -n def src/{_file(step + 1)}", f"head -c 900 src/{_file(step + 2)}"]
    calls = [_run(f"call_{number}_{at}", f"{step}-{at}", command) for at, command in enumerate(commands)]
    if step == max(2, plan.steps * 2 // 5):
        calls = [Call(id, "task", f"{SUBTASK}: read six files of src and tell what they have in common.")]
    return Turn(number, f"Step {step}. {_note(step)}", calls, pauses=step == plan.pause)


def _run(id: str, name: str, command: str) -> Call:
    marker = f"result-{name}-{random.Random(f'{SEED}{name}').randrange(10**6):06d}"
    return Call(id, "run", f"{command}; echo {marker}", marker)


def _note(step: int) -> str:
    chance = random.Random(f"note{SEED}{step}")
    verb, noun, other = chance.choice(_VERBS), chance.choice(_NOUNS), chance.choice(_NOUNS)
    return (
        f"In src/{_file(step)} the function {verb}_{noun} takes the {noun} from port "
        f"{chance.randrange(3000, 9000)} and raises E{chance.randrange(100, 999)} when the {other} is missing. "
        f"I decided to leave {chance.choice(_VERBS)}_{other} as it is, since its tests pass."
    )


def summary_name(number: int) -> str:
    """What a summary begins with, to be found in the requests that hold it."""
    return f"SUMMARY {number}:"


def _file(step: int) -> str:
    return f"module_{step % FILES:02d}.py"


def write_sources(folder: Path) -> Path:
    """Write the files that the session reads: plain Python, of about 5,000 characters each. Return the folder."""
    (folder / "src").mkdir(parents=True)
    for number in range(FILES):
        chance = random.Random(f"file{SEED}{number}")
        text = f'"""Part {number} of the shop."""\n\n'
        while len(text) < 5_000:
            verb, noun, other = chance.choice(_VERBS), chance.choice(_NOUNS), chance.choice(_NOUNS)
            text += (
                f"\ndef {verb}_{noun}_{len(text)}(rows, limit={chance.randrange(9000)}):\n"
                f'    """{verb.capitalize()} each {noun} up to the limit."""\n'
                f"    found = [row.{noun} for row in rows if row.{other} > {chance.randrange(500)}]\n"
                f"    if not found:\n"
                f"        raise LookupError('E{chance.randrange(100, 999)}: no {noun} for this {other}')\n"
                f"    return sorted(found)[:limit]\n"
            )
        (folder / "src" / _file(number)).write_text(text)
    return folder

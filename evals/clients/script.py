"""What the scripted model says: a long session of an agent that reads files, step by step, to its end.

A session is cut into legs. A leg ends with words, so that the client stops and is resumed. In one step the reply
pauses in its middle, so that the client can be interrupted there. One step gives a piece of the work to an agent.
"""

import random
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
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


class Turn(NamedTuple):
    """One reply of the model."""

    text: str
    calls: Sequence[Call] = ()
    pauses: bool = False  # in the middle of its stream, until the client hangs up
    thinks: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """How long the session is and where it is cut."""

    steps: int
    cuts: Sequence[int] = ()  # steps behind which a leg ends
    pause: int | None = None  # the step whose reply stops in its middle

    def words(self, step: int | None = None) -> str:
        """The words with which a leg ends behind this step; else the last ones of the session."""
        last = f"FINAL REPORT {SEED * 7919 % 9973}: all {self.steps} steps are done."
        return last if step is None else f"PART DONE at step {step} of {self.steps}."

    def replies(self) -> Generator[Turn, str | None, None]:
        """Yield the replies without end. One is asked for with the id of an agent where that has to be waited for."""
        for step in range(1, self.steps + 1):
            commands = [f"cat src/{_file(step)}"]
            if step % 10 == 5:
                commands += [f"grep -n port src/{_file(step + 1)}", f"head -c 900 src/{_file(step + 2)}"]
            calls = [_run(f"{step}-{at}", command) for at, command in enumerate(commands)]
            if step == max(2, self.steps * 2 // 5):
                task = f"{SUBTASK}: read six files of src and tell what they have in common."
                calls = [Call(f"call_{step}-task", "task", task)]
            agent = yield Turn(f"Step {step}. {_note(step)}", calls, pauses=step == self.pause)
            if agent:
                yield Turn("I wait for the agent.", [Call(f"call_{step}-wait", "wait", agent)])
            if step in self.cuts:
                yield Turn(f"{self.words(step)} {_note(step)}")
        while True:
            yield Turn(f"{self.words()} {_note(self.steps)}")


def replies_of_agent() -> Generator[Turn, str | None, None]:
    """Yield the replies to an agent that has got a piece of the work, without end."""
    for step in range(1, SUBTASK_STEPS + 1):
        yield Turn(f"I look at file {step} of my part.", [_run(f"agent-{step}", f"cat src/{_file(step + 20)}")])
    while True:
        yield Turn(f"SUBTASK DONE: {_note(SUBTASK_STEPS)}")


def _run(name: str, command: str) -> Call:
    marker = f"result-{name}-{random.Random(f'{SEED}{name}').randrange(10**6):06d}"
    return Call(f"call_{name}", "run", f"{command}; echo {marker}", marker)


def _note(step: int) -> str:
    chance = random.Random(f"note{SEED}{step}")
    verb, noun, other = chance.choice(_VERBS), chance.choice(_NOUNS), chance.choice(_NOUNS)
    return (
        f"In src/{_file(step)} the function {verb}_{noun} takes the {noun} from port "
        f"{chance.randrange(3000, 9000)} and raises E{chance.randrange(100, 999)} when the {other} is missing. "
        f"I decided to leave {chance.choice(_VERBS)}_{other} as it is, since its tests pass."
    )


def _file(step: int) -> str:
    return f"module_{step % FILES:02d}.py"


def write_sources(folder: Path) -> Path:
    """Write the files that the session reads, of about 5,000 characters each. Return the folder."""
    (folder / "src").mkdir(parents=True)
    for number in range(FILES):
        notes = "\n".join(f"# {_note(1_000 * number + at)}" for at in range(27))
        (folder / "src" / _file(number)).write_text(f'"""Part {number} of the shop."""\n\n{notes}\n')
    return folder

"""The session of a hundred steps that every host plays: parallel calls, thinking, lost results, edits, restarts."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from tests.hosts.contract.judge import Call, Judge, Row

STEPS = 100  # requests of the model
BUDGET = 4_000  # tokens of a request
SIZES = {"max_tokens": BUDGET, "segment_min": 200, "segment_target": 400, "segment_max": 800, "summary_max_tokens": 60}

PROMPT = "You fix code. Never push to main."
BESIDE = PROMPT + json.dumps({"name": "read", "description": "Read a file.", "path": {"type": "string"}})
_SENTENCE = "the cache of this module keeps every entry until its owner asks for a newer one and then drops it"
_WORDS = _SENTENCE.split()


class Turn(NamedTuple):
    before: str  # what happens first: nothing, "restart", or the method of `Conversation` of this name
    prompt: str
    replies: tuple[Row, ...]  # to the end of the turn


class Host(AbstractAsyncContextManager[Any]):
    """A host's real runtime with its fake model, which asks `Conversation.reply`, and a tool, which asks `result`.

    It is made with a conversation, the path of a store and options of `open_context`, and is entered by `async with`.
    The model is sent neither the system prompt nor tools as rows. Each host has these methods:

    - `async ask(prompt)` runs a turn,
    - `async put(log)` brings the host's history to these rows, by the means that the host has for it,
    - `async history()` returns the rows of the host's own history,
    - `async figures()` returns the statistics of the session since it was opened.
    """

    session = "contract"  # its id in the store
    tools: Sequence[Any] = ()  # of the framework, beside `read`

    def __init__(self, conversation: "Conversation", store: Path, **options: Any) -> None:
        self.conversation, self.store, self.options = conversation, store, options
        self.turns = 0

    async def restart(self) -> None:
        """Close everything of ours, and begin again with what the host has stored."""
        await self.__aexit__(None, None, None)
        await self.__aenter__()


def turns() -> Iterator[Turn]:
    """The script; the same in every run."""
    chance = random.Random(15)
    step = number = 0
    while step < STEPS:
        length = min(chance.choice([1, 2, 5, 9, 12]), STEPS - step)
        said = [_calling(chance, step + at) for at in range(length - 1)]
        prompt = f"[p{number}] Fix part {number}. {_text(chance, chance.choice([4, 20, 20, 900]))}"
        answer = Row("assistant", f"[a{number}] Part {number} is done. {_text(chance, 15)}")
        yield Turn(_BEFORE.get(number, ""), prompt, (*said, answer))
        step, number = step + length, number + 1


_BEFORE = {3: "lose", 5: "edit", 6: "restart", 8: "rewind", 9: "lose", 11: "edit", 13: "restart"}


def _calling(chance: random.Random, step: int) -> Row:
    """A reply with one to four calls, mostly behind signed thinking."""
    calls = tuple(_call(f"c{step}{name}") for name in "wxyz"[: chance.choice([1, 2, 2, 3, 4])])
    thinking = f"Which file is it? {_text(chance, 12)}" if chance.random() < 0.7 else ""
    return Row("assistant", f"[r{step}] I look. {_text(chance, 8)}", calls, thinking=thinking)


def _call(id: str) -> Call:
    return Call(id, "read", json.dumps({"path": f"src/{id}.py"}))


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(words)) + "."


class Conversation:
    """The script as it goes, what was said by now, and the judge of every request."""

    def __init__(self) -> None:
        self.judge = Judge(BUDGET, BESIDE)
        self.log: list[Row] = []
        self.removed: set[str] = set()
        self.replies: Iterator[Row] = iter(())  # of the turn

    def reply(self, sent: Sequence[Row]) -> Row:
        """What the model says to a request without its system prompt, judged first. Its results are said too, for the
        tools all answer."""
        self.judge.check(sent, self.log, self.removed)
        row = next(self.replies)
        self.log += [row, *(self._result(call) for call in row.calls)]
        return row

    def result(self, path: str) -> str:
        """What the tool says of a file, which its call has named."""
        id = path.removeprefix("src/").removesuffix(".py")
        chance = random.Random(id)
        return f"[{id}] {_text(chance, chance.choice([5, 20, 60, 60, 150, 1_200]))}"

    def _result(self, call: Call) -> Row:
        return Row("tool", self.result(json.loads(call.arguments)["path"]), answers=call.id)

    def lose(self) -> None:
        """An interrupted run: of three results two were never stored."""
        name = f"{len(self.log)}lost"
        calls = tuple(_call(f"c{name}{each}") for each in "xyz")
        asked = Row("user", f"[p{name}] Look once more.")
        self.log += [asked, Row("assistant", f"[r{name}] I look again.", calls), self._result(calls[1])]

    def edit(self) -> None:
        """Somebody corrects an ask in the middle."""
        asks = self._asks()
        at, number = asks[len(asks) // 2], len(self.removed)
        self.removed.add(str(self.log[at].mark))
        self.log[at] = replace(self.log[at], text=f"[e{number}] Fix another part, the {number}th.")

    def rewind(self) -> None:
        """Back to before the last three asks."""
        start = self._asks()[-3]
        self.removed |= {str(row.mark) for row in self.log[start:]}
        del self.log[start:]

    def _asks(self) -> list[int]:
        return [at for at, row in enumerate(self.log) if row.role == "user"]


@dataclass
class Played:
    """What came of the script with a host."""

    conversation: Conversation
    store: Path
    session: str  # its name in the store
    history: list[Row]  # as the host has it at the end
    figures: list[Any]  # of each time that the session was open
    restarts: list[bool]  # whether the first request behind each began with all of the last one before it
    telemetry: Any = None  # of OpenTelemetry's SDK, where it is installed

    @property
    def activations(self) -> int:
        return sum(each.activations for each in self.figures)


async def play(host: Any) -> Played:
    """Play the whole script."""
    figures, restarted, conversation = list[Any](), list[int](), host.conversation
    seen = conversation.judge.seen
    for turn in turns():
        if turn.before == "restart":
            figures.append(await host.figures())
            await host.restart()
            restarted.append(seen["requests"])
        elif turn.before:
            getattr(conversation, turn.before)()
            await host.put(conversation.log)
        conversation.replies = iter(turn.replies)
        conversation.log.append(Row("user", turn.prompt))
        before = seen["requests"]
        host.turns += 1
        await host.ask(turn.prompt)
        assert seen["requests"] - before == len(turn.replies)
    figures.append(await host.figures())
    begins = [conversation.judge.begins_as_before[request] for request in restarted]
    return Played(conversation, host.store, host.session, await host.history(), figures, begins)

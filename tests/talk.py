"""Write the messages of an agent's session, with new ids for its calls."""

from collections.abc import Iterator
from typing import Any

from tests.laws.builders import Message, assistant, call, result, user

_TEXT = "read the parser and fix its tests then run them again and note what the log says about the cache"
_WORDS = _TEXT.split(" ")


class Talk:
    """Messages in the shape of Chat Completions, with texts of so many tokens of four characters."""

    def __init__(self, *, tokens: int = 60) -> None:
        self._size, self._number = 4 * tokens, 0

    def text(self) -> str:
        """A text that begins with a number of its own."""
        self._number += 1
        words = (_WORDS[at % len(_WORDS)] for at in range(self._number, self._number + self._size))
        return f"{self._number}: {' '.join(words)}"[: self._size]

    def user(self, text: str | None = None) -> Message:
        return user(self.text() if text is None else text)

    def assistant(self, text: str | None = None) -> Message:
        return assistant(self.text() if text is None else text)

    def call(self, *names: str, **arguments: Any) -> Message:
        """A message that calls each of these tools, or `read_file`, with these arguments."""
        made = [(f"call_{self._number}_{at}", name, arguments) for at, name in enumerate(names or ("read_file",))]
        self._number += 1
        return call("openai", *made)

    def results(self, call: Message, text: str | None = None) -> list[Message]:
        """The messages that answer all calls of a message."""
        return [result("openai", one["id"], self.text() if text is None else text) for one in call["tool_calls"]]

    def turns(self, count: int) -> Iterator[Message]:
        """A question, a call with its result, and an answer each; every fifth turn makes two calls at once."""
        for turn in range(count):
            yield self.user()
            call = self.call(*["read_file"] * (2 if turn % 5 == 4 else 1), path=f"src/module_{turn % 17}.py")
            yield from (call, *self.results(call), self.assistant())

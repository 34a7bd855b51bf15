"""The baseline: no summaries. The oldest groups (a call with its results) are dropped, one by one or many at once."""

from __future__ import annotations

from collections import deque
from typing import Any

from evals.performance.manager import Manager, OneByOne, Setup
from evals.performance.tokens import Message, message_tokens

HALF = 0.5


class Truncation(OneByOne):
    """Once over the budget, the view shrinks to `share` of it."""

    def __init__(self, budget: int, share: float) -> None:
        self.budget, self.target = budget, budget * share
        self.system: list[Message] = []
        self.groups: deque[list[Message]] = deque()
        self.tokens = 0

    def taken(self, message: Message) -> Message:
        return message

    async def add(self, message: Message) -> None:
        self.tokens += message_tokens(message)
        if message["role"] == "system":
            self.system.append(message)
        elif message["role"] == "tool":
            self.groups[-1].append(message)
        else:
            self.groups.append([message])

    async def view(self) -> list[Message]:
        if self.tokens > self.budget:
            while self.tokens > self.target and len(self.groups) > 1:
                self.tokens -= sum(map(message_tokens, self.groups.popleft()))
        return [*self.system, *(message for group in self.groups for message in group)]

    def shown(self, view: Any) -> list[Message]:
        return list(view)


async def open_manager(setup: Setup) -> Manager:
    return Truncation(setup.budget, HALF)

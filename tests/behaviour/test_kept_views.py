"""A host that rewrites the end of its log keeps its view: only what stands behind the difference changes."""

from collections.abc import Callable
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour import contexts
from tests.contract.store_builders import sql
from tests.laws.builders import Message, assistant, result, system, user

begun = partial(contexts.begun, of=contexts.tiny, count_tokens=None)


def step(number: int, *, said: str = "") -> list[Message]:
    thinking = {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"sig{number}"}
    use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}
    read = assistant([thinking, use]), result("anthropic", f"t{number}", f"text {number} " * 20)
    return [user(said or f"Go on with {number}."), *read, assistant(f"Step {number} is done. " * 4)]


def covered(context: Any) -> int:
    """Messages of the log that the view does not show word for word."""
    return context.activations()[-1].covered_to if context.activations() else 0


async def grown(context: Any, steps: int = 19) -> list[dict[str, Any]]:
    """A history of which a view covers some."""
    history = [system("Be brief."), user("Begin. Never push to main.")]
    for number in range(steps):
        history += step(number)
        await context.follow(history)
        await context.wait_idle()
        await context.get_messages_for_request()
    assert covered(context) > 10
    return history


REMINDER = "\n<reminder>Mind the tests.</reminder>"
EDITS: dict[str, Any] = {
    # as a client sends it that puts its reminder into the newest message, and takes it out of the one before
    "a reminder in the newest message": lambda all: [*all[:-1], assistant(all[-1]["content"] + REMINDER)],
    "a failed turn dropped": lambda history: history[:-4],
    "a turn put in": lambda history: [*history[:-2], *step(900), *history[-2:]],
    "the newest call interrupted": lambda history: [*history[:-2], user("Stop that."), assistant("Stopped.")],
    "the newest said otherwise": lambda history: [*history[:-4], *step(901, said="Rather do something else.")],
}


def same_rows(view: list[Any], before: list[Any]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(view, before, strict=False)))


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("how", ["follow", "set_messages"])
async def test_the_view_stays_up_to_the_difference(edit: str, how: str):
    async with begun() as context:
        history = await grown(context)
        before = await context.get_messages_for_request()
        was, records = covered(context), len(context.activations())
        edited = EDITS[edit](history)
        await getattr(context, how)(edited)
        view = await context.get_messages_for_request()
        assert context.last_view.activation is None
        assert (len(context.activations()), covered(context)) == (records, was)
        assert same_rows(view, before) >= len(before) - (len(history) - same_rows(history, edited))
        assert context.last_view.stable_prefix_messages == same_rows(view, before)
        assert await context.get_messages() == edited
        assert view[-1] == edited[-1]


def rewritten(path: Path, change: Callable[[str], str]) -> None:
    """Change the state of the view in the store."""
    with sql(path) as database:
        ((state,),) = database.execute("select state from activations").fetchall()
        database.execute("update activations set state = ?", (change(state).encode(),))


DAMAGED = ["5", "[]", "{}", '{"nodes": null}', '{"nodes": [5]}', '{"nodes": [[1, 2]]}', "{", '{"\\ud800": 1}']


@pytest.mark.parametrize("damaged", DAMAGED)
async def test_a_damaged_state_is_made_again(tmp_path: Path, damaged: str):
    async with begun(store=tmp_path / "s.db") as context:
        history = await grown(context)
    rewritten(tmp_path / "s.db", lambda _: damaged)
    async with begun(store=tmp_path / "s.db") as context:
        assert await context.get_messages() == history
        assert await context.get_messages_for_request()

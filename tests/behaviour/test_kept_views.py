"""A host that rewrites the end of its log keeps its view: only what stands behind the difference changes."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from summarizing_context import open_context
from tests.behaviour.contexts import tiny
from tests.laws.builders import assistant, system, user


def step(number: int, *, said: str = "") -> list[dict[str, Any]]:
    thinking = {"type": "thinking", "thinking": f"Thought {number}.", "signature": f"sig{number}"}
    use = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {"n": number}}
    answer = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"text {number} " * 20}
    return [
        user(said or f"Go on with {number}."),
        assistant([thinking, use]),
        user([answer]),
        assistant(f"Step {number} is done. " * 4),
    ]


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


def with_reminder(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As a client sends it that puts its reminder into the newest message, and takes it out of the one before."""
    newest = history[-1]
    return [*history[:-1], {**newest, "content": f"{newest['content']}\n<reminder>Mind the tests.</reminder>"}]


EDITS: dict[str, Any] = {
    "a reminder in the newest message": with_reminder,
    "a failed turn dropped": lambda history: history[:-4],
    "a turn put in": lambda history: [*history[:-2], *step(900), *history[-2:]],
    "the newest call interrupted": lambda history: [*history[:-2], user("Stop that."), assistant("Stopped.")],
    "the newest said otherwise": lambda history: [*history[:-4], *step(901, said="Rather do something else.")],
}


def same_rows(view: list[Any], before: list[Any]) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(view, before, strict=False)) if a != b), min(len(view), len(before))
    )


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("how", ["follow", "set_messages"])
async def test_the_view_stays_up_to_the_difference(edit: str, how: str):
    async with open_context(tiny()) as context:
        history = await grown(context)
        before = await context.get_messages_for_request()
        was, records = covered(context), len(context.activations())
        edited = EDITS[edit](history)
        await getattr(context, how)(edited)
        view = await context.get_messages_for_request()
        assert context.last_view.activation is None
        assert len(context.activations()) == records
        assert covered(context) == was
        assert same_rows(view, before) >= len(before) - (len(history) - same_rows(history, edited))
        assert context.last_view.stable_prefix_messages == same_rows(view, before)
        assert await context.get_messages() == edited
        assert view[-1] == edited[-1]


async def test_a_state_kept_with_the_values_that_its_blocks_lack_shows_the_same_view(tmp_path: Path):
    settings = tiny(store=tmp_path / "s.db")
    async with open_context(settings) as context:
        await grown(context)
        before = await context.get_messages_for_request()
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        ((state,),) = database.execute("select state from activations").fetchall()
        written = json.loads(state)
        for node in written["nodes"]:
            node.insert(-1, ["src/app.py"])  # as the version before wrote it
        database.execute("update activations set state = ?", (json.dumps(written).encode(),))
        database.commit()
    async with open_context(settings) as context:
        assert written["nodes"]
        assert await context.get_messages_for_request() == before


@pytest.mark.parametrize("damaged", ["5", "[]", "{}", '{"nodes": null}', '{"nodes": [5]}', '{"nodes": [[1, 2]]}', "{"])
async def test_a_damaged_state_is_made_again(tmp_path: Path, damaged: str):
    settings = tiny(store=tmp_path / "s.db")
    async with open_context(settings) as context:
        history = await grown(context)
    with closing(sqlite3.connect(tmp_path / "s.db")) as database:
        database.execute("update activations set state = ?", (damaged.encode(),))
        database.commit()
    async with open_context(settings) as context:
        assert await context.get_messages() == history
        assert await context.get_messages_for_request()

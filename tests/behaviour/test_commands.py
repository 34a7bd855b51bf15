"""`/context ...` commands, as a host passes them on."""

import json
from typing import Any

import pytest

from summarizing_context import CommandResult, SummarizingContext
from tests.behaviour.contexts import opened
from tests.laws.builders import session, user

LOG = [user("The walrus is called Ursula."), *session(3, 60, rules="")]
GOOD = [
    *("/context", "/context help", "/context status", "/CONTEXT\tStatus\n"),
    *("/context summarize", "/context summarize the walrus", "/context summarize 4"),
    *("/context compress", "/context compress 0.9"),
    *("/context pins", "/context pin 0", "/context pin Ursula bites", "/context pins", "/context unpin p1"),
    *("/context checkpoint before the move", "/context checkpoints", "/context restore before the move"),
    *("/context search walrus", " search\twalrus ", "/context expand {name} line", "expand 0"),
    *("recall name of the walrus", "Memory walrus", "ledger"),
]


async def run(context: SummarizingContext, text: Any) -> CommandResult:
    result = await context.handle_command(text)
    assert json.loads(json.dumps(result.data)) == result.data
    assert result.text.strip()
    return result


async def test_every_command_answers_with_text_and_data():
    async with opened(LOG) as context:
        name = context.explain()[0].name
        for text in GOOD:
            assert (await run(context, text.format(name=name))).ok, text
        helped = await run(context, "help")
        assert all(f"/context {name}" in helped.text for name in helped.data["commands"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/context statsu", "did you mean 'status'?"),
        ("/context xyzzy", "'/context help' lists all"),
        ("/context restore", "checkpoint"),
        ("/context restore c99", "no checkpoint of this id or name; it has none yet"),
        ("/context unpin p9", "no pin of this id; it has none"),
        ("/context search", "Usage: /context search [--project|--all] QUERY"),
        ("/context expand", "Usage: /context expand"),
        ("/context expand 900", "messages 0 to"),
        ("/context expand 1 all of it", "detail"),
        ("/context recall ?!", "words"),
        (None, "NoneType"),
    ],
)
async def test_what_is_wrong_with_a_command_is_told_not_raised(text: Any, says: str):
    async with opened(LOG) as context:
        result = await run(context, text)
        assert not result.ok
        assert says in result.text
        assert result.data["error"]

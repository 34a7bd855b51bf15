"""What is sent beside the messages, tools and a system prompt of blocks, takes its part of the budget."""

from typing import Any

import pytest

from summarizing_context import SettingsError, SummarizingContext, message_text_parts, open_context
from tests.behaviour.contexts import Heard, tiny
from tests.laws.builders import assistant, count, user

SMALL = tiny(max_tokens=4_000, idle_after="never")
FORMS = {
    "openai": lambda tool: {"type": "function", "function": tool | {"parameters": {"type": "object"}}},
    "anthropic": lambda tool: tool | {"input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
    "gemini": lambda tool: {"functionDeclarations": [tool]},
}


def tools(number: int, form: str = "openai") -> list[dict[str, Any]]:
    return [FORMS[form]({"name": f"tool_{n}", "description": "reads a file and says so " * 10}) for n in range(number)]


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in inner for text in strings(item)]


def recounted(view: list[Any]) -> int:
    return sum(4 + sum(map(count, message_text_parts(message))) for message in view)


async def talk(context: SummarizingContext, first: int, turns: int) -> None:
    for number in range(first, first + turns):
        await context.add_message(user(f"{number}: " + "words of a person " * 8))
        await context.add_message(assistant(f"{number}: " + "words of a model " * 8))


@pytest.mark.parametrize("form", sorted(FORMS))
async def test_messages_tools_and_prompt_stay_within_the_budget_together(form: str):
    sent, prompt = tools(25, form), [{"type": "text", "text": "Be kind. " * 40}, {"type": "text", "text": "Be brief."}]
    beside = sum(count(text) for text in strings(sent) + strings(prompt))
    assert beside > 1_000
    async with open_context(SMALL, count_tokens=count) as context:
        for turn in range(40):
            await talk(context, turn, 1)
            messages = await context.get_messages_for_request(system=prompt, tools=sent)
            view = context.last_view
            assert view is not None
            assert messages[0] == {"role": "system", "content": prompt}
            assert view.tokens == recounted(messages[1:])
            assert view.fixed_tokens >= beside
            assert view.tokens + view.fixed_tokens <= 4_000
        assert context.statistics().activations > 0


async def test_what_a_provider_reports_is_held_against_all_that_was_sent():
    heard = Heard()
    async with open_context(SMALL, events=heard, count_tokens=count) as context:
        await talk(context, 0, 5)
        await context.get_messages_for_request(tools=tools(20))
        view = context.last_view
        await context.observe_usage(view.tokens + view.fixed_tokens)
    assert [(each["ratio"], each["counted"]) for each in heard.of("usage_calibrated")] == [
        (1.0, view.tokens + view.fixed_tokens)
    ]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tools": "read"}, "tools is str"),
        ({"tools": 5}, "tools is int"),
        ({"tools": {"name": "read"}}, "tools is dict"),
        ({"tools": [{"name": "read"}, "write"]}, r"tools\[1\] is str"),
        ({"tools": [{"name": float("nan")}]}, "tools cannot be sent"),
        ({"tools": [{"name": object()}]}, "tools cannot be sent"),
        ({"system": [{"text": object()}]}, "system cannot be sent"),
        ({"system": ["be kind"]}, r"system\[0\] is str"),
    ],
)
async def test_what_is_no_tool_and_no_prompt_is_refused_and_changes_nothing(wrong: dict[str, Any], said: str):
    async with open_context(SMALL, count_tokens=count) as context:
        await talk(context, 0, 2)
        before = await context.get_messages_for_request(system="One.", tools=tools(1))
        with pytest.raises(SettingsError, match=said):
            await context.get_messages_for_request(**wrong)
        assert await context.get_messages_for_request(system="One.", tools=tools(1)) == before
        assert context.statistics().activations == 0

"""Tools of ours as providers' APIs take them, and the arguments that models call them with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from summarizing_context.errors import SettingsError, briefly

Style = Literal["anthropic", "openai", "openai-responses"]


def tool_schema(
    name: str, description: str, properties: Mapping[str, Any], style: Style, *, required: Sequence[str] = ()
) -> dict[str, Any]:
    """A tool as a provider's API takes it: `anthropic` (`name`, `description`, `input_schema`), `openai` (chat
    completions) or `openai-responses`. Raises `SettingsError` for another style."""
    copied = json.loads(json.dumps(properties))
    schema: dict[str, Any] = {"type": "object", "properties": copied, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    function = {"name": name, "description": description, "parameters": schema}
    match style:
        case "anthropic":
            return {"name": name, "description": description, "input_schema": schema}
        case "openai":
            return {"type": "function", "function": function}
        case "openai-responses":
            return {"type": "function", **function}
    raise SettingsError(f"style is {briefly(style)}; it is one of {', '.join(get_args(Style))}")


def given_arguments(arguments: object, names: Sequence[str], example: str) -> dict[str, Any]:
    """The arguments of a call that say something; providers hand them over as an object or as JSON. Raises
    `SettingsError` with what a model should do."""
    if isinstance(arguments, str | bytes):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise SettingsError(f"the arguments are no JSON; give {example}") from error
    if not isinstance(arguments, Mapping):
        raise SettingsError(f"the arguments are no object; give {example}")
    said = {name: value for name, value in arguments.items() if value not in (None, "")}
    if strange := [name for name in said if name not in names]:
        raise SettingsError(f"there is no argument {briefly(strange[0])}; there are {', '.join(names)}")
    return said

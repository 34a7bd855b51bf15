"""Our tools as Amplifier mounts them, and what it sends of each."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from summarizing_context.context import SummarizingContext
from summarizing_context.retrieval.tools import memory_tool_schemas, recall_tool_schema

logger = logging.getLogger(__name__)


def tool_definitions(mounted: object) -> list[dict[str, Any]]:
    """What the host sends of each mounted tool. Foreign code: a tool that misbehaves is sent by nobody."""
    definitions: list[dict[str, Any]] = []
    for tool in mounted.values() if isinstance(mounted, Mapping) else ():
        try:
            schema = getattr(tool, "input_schema", None) or {}
            definition = {"name": tool.name, "description": tool.description, "parameters": schema}
            definitions.append(json.loads(json.dumps(definition, allow_nan=False)))
        except Exception as error:
            logger.warning("a mounted tool cannot be counted", extra={"cause": type(error).__name__})
    return definitions


class AmplifierTool:
    """The host's protocol for tools over one session's context. `schema` is the tool in Anthropic's shape."""

    def __init__(self, schema: dict[str, Any], call: Callable[[object], Awaitable[str]]) -> None:
        self.name: str = schema["name"]
        self.description: str = schema["description"]
        self._schema = schema
        self._call = call

    @property
    def input_schema(self) -> dict[str, Any]:
        """What a call may hold."""
        schema: dict[str, Any] = self._schema["input_schema"]
        return schema

    async def execute(self, input: dict[str, Any]) -> Any:
        """The host's `ToolResult`; what fails, such as a closed session, is told in it and ends no turn."""
        from amplifier_core import ToolResult

        try:
            return ToolResult(success=True, output=await self._call(input))
        except Exception as error:
            return ToolResult(success=False, error={"message": str(error), "type": type(error).__name__})


class Owner(Protocol):
    """Whose tools they are."""

    async def opened(self) -> SummarizingContext: ...

    async def close(self) -> None: ...


def our_tools(owner: Owner, *, recall: bool, memory: bool) -> list[AmplifierTool]:
    """Our tools, as far as they are asked for."""

    async def recalled(arguments: object) -> str:
        return await (await owner.opened()).call_recall_tool(arguments)

    async def remembered(name: str, arguments: object) -> str:
        return await (await owner.opened()).call_memory_tool(name, arguments)

    schemas = memory_tool_schemas() if memory else []
    tools = [AmplifierTool(recall_tool_schema(), recalled)] if recall else []
    return tools + [AmplifierTool(schema, partial(remembered, schema["name"])) for schema in schemas]


async def mount_tools(coordinator: Any, owner: Owner, tools: Sequence[AmplifierTool]) -> Callable[[], Awaitable[None]]:
    """Mount tools; the function that unmounts those that still are what is mounted there, and closes their owner."""
    for tool in tools:
        await coordinator.mount("tools", tool, name=tool.name)

    async def clean_up() -> None:
        for tool in tools:
            if (coordinator.get("tools") or {}).get(tool.name) is tool:
                await coordinator.unmount("tools", name=tool.name)
        await owner.close()

    return clean_up

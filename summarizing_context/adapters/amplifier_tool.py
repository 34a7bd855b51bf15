"""The tool `context_recall` as Amplifier mounts tools. What it does is `recall_tool`'s matter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from summarizing_context.recall_tool import DESCRIPTION, NAME, recall_tool_schema


class AmplifierRecallTool:
    """The host's protocol for tools over one session's context."""

    name = NAME
    description = DESCRIPTION

    def __init__(self, call: Callable[[object], Awaitable[str]]) -> None:
        self._call = call

    @property
    def input_schema(self) -> dict[str, Any]:
        """What a call may hold."""
        schema: dict[str, Any] = recall_tool_schema()["input_schema"]
        return schema

    async def execute(self, input: dict[str, Any]) -> Any:
        """The host's `ToolResult`; what fails, such as a closed session, is told in it and ends no turn."""
        from amplifier_core import ToolResult

        try:
            return ToolResult(success=True, output=await self._call(input))
        except Exception as error:
            return ToolResult(success=False, error={"message": str(error), "type": type(error).__name__})


class Owner(Protocol):
    """Whose tool it is."""

    async def call_recall_tool(self, arguments: object) -> str: ...

    async def close(self) -> None: ...


async def mount_recall_tool(coordinator: Any, owner: Owner) -> Callable[[], Awaitable[None]]:
    """Mount the tool; the function that unmounts it, if it still is what is mounted there, and closes its owner."""
    tool = AmplifierRecallTool(owner.call_recall_tool)
    await coordinator.mount("tools", tool, name=NAME)

    async def clean_up() -> None:
        if (coordinator.get("tools") or {}).get(NAME) is tool:
            await coordinator.unmount("tools", name=NAME)
        await owner.close()

    return clean_up

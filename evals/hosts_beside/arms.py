"""The arms: whose module opens a host, in which environment it runs, and which of its own settings is searched."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Arm(NamedTuple):
    module: str
    environment: str  # of `evals.performance.environments`; "" for the one that runs this
    packages: tuple[str, ...]  # whose versions are told
    searched: str
    start: int  # found for 300 turns and views of 8,000 tokens; the search begins here


ARMS = {
    "LangChain": Arm("langchain_host", "", ("langchain",), 'trigger=("tokens", N)', 12_639),
    "deepagents": Arm(
        "langchain_host", "deepagents", ("deepagents", "langchain"), "max_input_tokens of the model", 16_479
    ),
    "ours in LangChain": Arm("langchain_host", "", ("langchain",), "max_tokens", 11_790),
    "Pydantic AI": Arm(
        "pydantic_host", "pydantic-ai-harness", ("pydantic-ai-harness", "pydantic-ai-slim"), "max_tokens", 11_470
    ),
    "Pydantic AI in the background": Arm(
        "pydantic_host", "pydantic-ai-harness", ("pydantic-ai-harness", "pydantic-ai-slim"), "context_window", 13_600
    ),
    "ours in Pydantic AI": Arm("pydantic_host", "", ("pydantic-ai-slim",), "max_tokens", 11_760),
    "OpenAI": Arm("openai_host", "", ("openai-agents",), "items that make a compaction due", 57),
    "ours in OpenAI Agents": Arm("openai_host", "", ("openai-agents",), "max_tokens", 11_816),
}

_HOSTS = {"langchain_host": "LangChainHost", "pydantic_host": "PydanticHost", "openai_host": "OpenAIHost"}


def host_of(arm: str) -> Any:
    """The class of its host. Needs the packages of its environment."""
    module = ARMS[arm].module
    return getattr(importlib.import_module(f"evals.hosts_beside.{module}"), _HOSTS[module])

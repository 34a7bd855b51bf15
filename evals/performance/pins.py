"""Which versions of the peers are measured. An environment is made again when its line changes.

Known to install together and to work with the adapters, November 2026.
"""

from __future__ import annotations

from typing import NamedTuple


class Pins(NamedTuple):
    """What one environment holds; `python` is the oldest minor version that it runs on."""

    packages: tuple[str, ...]
    python: tuple[int, int] = (3, 11)


PINS: dict[str, Pins] = {
    "langchain": Pins(("langchain==1.4.7",)),
    "deepagents": Pins(("deepagents==0.7.32",)),
    "pydantic-ai-harness": Pins(("pydantic-ai-harness==0.62.0",)),
    "langmem": Pins(("langmem==0.0.30",)),
    "strands": Pins(("strands-agents==1.62.0",)),
    "openhands": Pins(("openhands-sdk==1.58.0",), python=(3, 12)),
    "cliffcompaction": Pins(("cliffcompaction==0.1.0",)),
    "agent-framework": Pins(("agent-framework-core==1.23.0",)),
}

"""The oldest versions of hosts are the same in the extras, in the constraints of their tests, and on the pages."""

import re
import tomllib

import pytest

from tests.docs.checkout import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OLDEST = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "tests/hosts/oldest.txt").read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize(
    ("page", "package", "extra"),
    [
        ("amplifier", "amplifier-core", "amplifier"),
        ("langchain", "langchain", "langchain"),
        ("mcp", "mcp", "mcp"),
        ("openai_agents", "openai-agents", "openai-agents"),
        ("opentelemetry", "opentelemetry-sdk", "hosts"),
        ("pydantic_ai", "pydantic-ai-slim", "pydantic-ai"),
    ],
)
def test_the_oldest_version_is_the_same_everywhere(page, package, extra):
    floors = [re.fullmatch(rf"{package}>=([\d.]+)", line) for line in EXTRAS[extra]]
    (floor,) = [found[1] for found in floors if found]
    assert OLDEST[package].startswith(f"{floor}.")
    told = (ROOT / f"docs/integrate/{page}.md").read_text(encoding="utf-8")
    assert f"Tested with `{package}` {OLDEST[package]} and " in told

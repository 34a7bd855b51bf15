"""An adapter whose host is not installed says which extra brings it; its oldest version is the same everywhere."""

import importlib
import re
import sys
import tomllib

import pytest

from summarizing_context import MissingExtraError
from tests.docs.checkout import ROOT

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
OLDEST = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "tests/hosts/oldest.txt").read_text(encoding="utf-8"), re.M))


@pytest.mark.parametrize("adapter", ["langchain", "openai_agents", "pydantic_ai"])
def test_the_extra_is_named(adapter, monkeypatch):
    module, package = f"summarizing_context.adapters.{adapter}", adapter.removeprefix("openai_")
    for name in [name for name in sys.modules if f"{name}.".startswith((f"{module}.", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    extra = adapter.replace("_", "-")
    with pytest.raises(MissingExtraError, match=rf"pip install 'summarizing-context\[{extra}\]'"):
        importlib.import_module(module)


PACKAGES = {"amplifier": "amplifier-core", "langchain": "langchain", "mcp": "mcp", "openai_agents": "openai-agents"}
PACKAGES |= {"opentelemetry": "opentelemetry-sdk", "pydantic_ai": "pydantic-ai-slim"}


@pytest.mark.parametrize(("page", "package"), PACKAGES.items())
def test_the_oldest_version_is_the_same_everywhere(page, package):
    extra = "hosts" if page == "opentelemetry" else page.replace("_", "-")
    floors = [re.fullmatch(rf"{package}>=([\d.]+)", line) for line in EXTRAS[extra]]
    (floor,) = [found[1] for found in floors if found]
    assert OLDEST[package].startswith(f"{floor}.")
    told = (ROOT / f"docs/integrate/{page}.md").read_text(encoding="utf-8")
    assert f"Tested with `{package}` {OLDEST[package]} and " in told

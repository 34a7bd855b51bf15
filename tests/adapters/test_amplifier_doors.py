"""The doors by which a host finds the module in a checkout; that of an installed wheel is in `tests/docs`."""

import re
import sys

import pytest
import yaml
from amplifier_core.validation import ContextValidator

from summarizing_context.adapters.amplifier import SummarizingContextManager
from tests.adapters.doors import FolderSource
from tests.adapters.host import session_of
from tests.docs.checkout import PACKAGE, ROOT


async def test_a_folder_source(monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))  # the host's loader puts the folder there
    plan = {"module": "context-summarizing", "source": str(PACKAGE), "config": {"max_tokens": 5_000}}
    async with session_of({}, context=plan, resolver=FolderSource(PACKAGE)) as session:
        context = session.coordinator.get("context")
        assert isinstance(context, SummarizingContextManager)
        await context.should_compact()
        window = (await context.opened()).budget().max_tokens
        assert window == 4_500, "on_session_ready has run: the provider tells its window"
        assert await session.execute("Read.") == "Answer 3."


@pytest.mark.parametrize("name", ["summarizing_context", str(PACKAGE)])
async def test_the_hosts_validator_passes(name):
    result = await ContextValidator().validate(name)
    assert result.passed, [check.message for check in result.errors]
    assert len(result.checks) == 9
    assert all(check.passed for check in result.checks)


@pytest.mark.parametrize("language", ["json", "yaml"])
async def test_a_documented_mount_plan_works(language, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".amplifier").mkdir()
    page = (ROOT / "docs" / "integrate" / "amplifier.md").read_text(encoding="utf-8")
    written = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    plan = yaml.safe_load(written)  # reads JSON too
    async with session_of({}, context=plan["session"]["context"]) as session:
        assert await session.execute("Read.") == "Answer 3."
        context = session.coordinator.get("context")
        assert context.statistics().store == str(tmp_path / ".amplifier" / "contexts.db")

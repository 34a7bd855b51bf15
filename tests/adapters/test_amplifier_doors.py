"""A mount plan of the documents in a checkout; the doors of an installed wheel are in `tests/docs`."""

import re

import pytest
import yaml

from tests.adapters.host import session_of
from tests.docs.checkout import ROOT


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

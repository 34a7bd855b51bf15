"""A mount plan of the documents, and the host's own suites, in a checkout; an installed wheel is in `tests/docs`."""

import re
from xml.etree import ElementTree

import pytest
import yaml

from tests.adapters.host import session_of
from tests.docs.checkout import PACKAGE, ROOT, run_python


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


SUITES = """
from amplifier_core.validation.behavioral import ContextBehaviorTests
from amplifier_core.validation.structural import ContextStructuralTests


class TestBehaviour(ContextBehaviorTests):
    pass


class TestStructure(ContextStructuralTests):
    pass
"""


def test_the_hosts_own_suites_pass_and_none_is_skipped(tmp_path):
    (tmp_path / "test_suites.py").write_text(SUITES)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    report = tmp_path / "report.xml"
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", f"--junitxml={report}", f"--module-path={PACKAGE}"]
    done = run_python(["-m", "pytest", *options, str(tmp_path)], cwd=tmp_path, env={"PYTEST_ADDOPTS": ""})
    assert done.returncode == 0, done.stdout
    suite = ElementTree.parse(report).getroot().find("testsuite")
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "11", "failures": "0", "errors": "0", "skipped": "0"}

"""The suites that amplifier-core brings along for context modules: collected, passed, none skipped."""

from xml.etree import ElementTree

from tests.docs.checkout import PACKAGE, run_python

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

"""What the wheel carries: the package with its prompts and SQL, and nothing that belongs to a checkout."""

import os
import zipfile
from pathlib import Path

import pytest

from tests.docs.checkout import PACKAGE, ROOT, run_python

DOORS = ("entry point", "folder")
# The host's engine has threads of its own, which now and then crash while Python shuts down: leave before that.
VALIDATE = """
import os, sys
from amplifier_core.cli import cli

try:
    cli(["validate", "context", sys.argv[1]])
except SystemExit as end:
    sys.stdout.flush()
    os._exit(end.code)
"""
SESSION = """
import asyncio, os, sys
from pathlib import Path

import summarizing_context
from amplifier_core.module_sources import ModuleNotFoundError
from summarizing_context.summarizers.prompts import latest, prompts_root
from tests.adapters.host import session_of

door, site = sys.argv[1], Path(sys.argv[2])
assert Path(summarizing_context.__file__).is_relative_to(site), summarizing_context.__file__
assert prompts_root() == site / "summarizing_context" / "prompts" and latest("segment")


class FolderSource:  # as applications bring one
    def resolve(self, module_id=None, source_hint=None, profile_hint=None):
        if module_id not in (None, "context-summarizing"):
            raise ModuleNotFoundError(module_id)
        return site if module_id is None else self


async def main():
    async with session_of({}, resolver=FolderSource() if door == "folder" else None) as session:
        context = session.coordinator.get("context")
        assert type(context).__module__.startswith("summarizing_context.")
        assert await session.execute("Read.") == "Answer 3."
        print("ready")


asyncio.run(main())
sys.stdout.flush()
os._exit(0)  # the host's engine has threads of its own, which now and then crash while Python shuts down
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's contents, laid out as an installer would."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run_python(["-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)])
    assert built.returncode == 0, built.stdout
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_carries_all_that_the_package_holds_every_prompt_and_what_it_declares(installed: Path):
    package = {f"summarizing_context/{name}" for name in names(PACKAGE) if not name.endswith(".pyc")}
    prompts = {f"summarizing_context/prompts/{name}" for name in names(ROOT / "prompts")}
    assert prompts
    assert any(name.endswith(".sql") for name in package)
    assert "summarizing_context/py.typed" in package
    package.remove("summarizing_context/adapters/amplifier/entry.py")  # it stands under the host's name for it
    module = {"amplifier_module_context_summarizing/__init__.py"}
    assert {name for name in names(installed) if ".dist-info/" not in name} == package | prompts | module

    (information,) = installed.glob("*.dist-info")
    entries = (information / "entry_points.txt").read_text(encoding="utf-8")
    assert "summarizing-context = summarizing_context.cli:main" in entries
    assert "context-summarizing = summarizing_context.adapters.amplifier:mount" in entries
    assert (information / "licenses" / "LICENSE").is_file()


def test_an_installed_wheel_is_valid_and_a_context_in_a_real_session(installed: Path, tmp_path: Path):
    """By its entry point, and by its module folder given as a source; it reads its own prompts."""
    folder = str(installed / "amplifier_module_context_summarizing")
    path = os.pathsep.join([str(installed), str(ROOT)])  # the tests' host is not in the wheel
    for script, *arguments in ((VALIDATE, folder), *((SESSION, door, str(installed)) for door in DOORS)):
        done = run_python(["-c", script, *arguments], cwd=tmp_path, env={"PYTHONPATH": path})
        assert (done.returncode, "ready" in done.stdout or script == VALIDATE) == (0, True), done.stdout

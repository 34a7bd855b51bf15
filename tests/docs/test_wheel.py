"""What the wheel carries: the package with its prompts and SQL, and nothing that belongs to a checkout."""

import os
import zipfile
from pathlib import Path

import pytest

from tests.adapters.doors import VALIDATE
from tests.docs.checkout import PACKAGE, ROOT, run_python

SESSION = """
import asyncio, os, sys
from pathlib import Path

import summarizing_context
from summarizing_context.summarizers.prompts import latest, prompts_root
from tests.adapters.doors import FolderSource
from tests.adapters.host import session_of

door, site = sys.argv[1], Path(sys.argv[2])
assert Path(summarizing_context.__file__).is_relative_to(site), summarizing_context.__file__
assert prompts_root() == site / "summarizing_context" / "prompts" and latest("segment")


async def main():
    async with session_of({}, resolver=FolderSource(site) if door == "folder" else None) as session:
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


def test_the_wheel_carries_every_prompt_and_all_that_the_package_holds(installed: Path):
    package = {f"summarizing_context/{name}" for name in names(PACKAGE) if not name.endswith(".pyc")}
    prompts = {f"summarizing_context/prompts/{name}" for name in names(ROOT / "prompts")}
    assert prompts
    assert any(name.endswith(".sql") for name in package)
    assert "summarizing_context/py.typed" in package
    package.remove("summarizing_context/adapters/amplifier/entry.py")  # it stands under the host's name for it
    module = {"amplifier_module_context_summarizing/__init__.py"}
    assert {name for name in names(installed) if ".dist-info/" not in name} == package | prompts | module


def test_the_wheel_declares_its_licence_its_command_and_its_entry_point(installed: Path):
    (information,) = installed.glob("*.dist-info")
    entries = (information / "entry_points.txt").read_text(encoding="utf-8")
    assert "summarizing-context = summarizing_context.cli:main" in entries
    assert "context-summarizing = summarizing_context.adapters.amplifier:mount" in entries
    assert (information / "licenses" / "LICENSE").is_file()


@pytest.mark.parametrize("door", ["entry point", "folder"])
def test_an_installed_wheel_is_a_context_in_a_real_session(installed: Path, tmp_path: Path, door: str):
    """Its entry point, and its module folder given as a source; it reads its own prompts."""
    script = tmp_path / "session.py"
    script.write_text(SESSION, encoding="utf-8")
    path = os.pathsep.join([str(installed), str(ROOT)])  # the tests' host is not in the wheel
    done = run_python([str(script), door, str(installed)], cwd=tmp_path, env={"PYTHONPATH": path})
    assert done.returncode == 0, done.stdout
    assert "ready" in done.stdout.splitlines()


def test_the_hosts_command_validates_the_installed_module(installed: Path, tmp_path: Path):
    folder = str(installed / "amplifier_module_context_summarizing")
    done = run_python(["-c", VALIDATE, folder], cwd=tmp_path, env={"PYTHONPATH": str(installed)})
    assert done.returncode == 0, done.stdout

"""What must not be in the checkout."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.checkout import ROOT

# In pieces, so that this file does not hold what it looks for.
MACHINE_PATHS = [f"/{folder}/" for folder in ("root", "work", "tmp/bash_jobs")]
REGISTRIES = [
    rf"{name}\.{end}" for name, end in (("py" + "pi", "org"), ("python" + "hosted", "org"), ("npm" + "js", "(org|com)"))
]
FORBIDDEN = re.compile("|".join(MACHINE_PATHS + REGISTRIES).encode())


def files_of_the_checkout() -> list[Path]:
    """What git has or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [path for name in sorted(set(listed.decode().split("\0"))) if name and (path := ROOT / name).is_file()]


def test_no_file_names_a_place_on_one_machine_or_a_registry_or_is_too_large_to_be_source():
    files = files_of_the_checkout()
    found = {str(path.relative_to(ROOT)): FORBIDDEN.search(path.read_bytes()) for path in files}
    assert {name: match[0] for name, match in found.items() if match} == {}
    assert [path for path in files if path.stat().st_size > 1_500_000] == []

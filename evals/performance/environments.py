"""Make the environment of a peer: a venv under `.environments/`, filled with the pinned packages."""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / ".environments"
LIMIT = 900  # seconds for one installation
PINS = {
    name: f"{name}=={version}"
    for name, version in {"langchain": "1.4.7", "deepagents": "0.7.32", "pydantic-ai-harness": "0.62.0"}.items()
}


def ensure(name: str) -> Path:
    """Return the Python of an environment, made unless it is there. Raise `CalledProcessError` if it cannot be made."""
    if not name:
        return Path(sys.executable)
    folder, mark = FOLDER / name, FOLDER / name / ".ready"
    python = folder / "bin" / "python"
    if not mark.is_file() or mark.read_text() != PINS[name]:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=LIMIT)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", PINS[name]], check=True, timeout=LIMIT)
        mark.write_text(PINS[name])
    return python

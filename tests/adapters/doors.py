"""Ways to our module: a source resolver as applications bring one, and the host's command that validates a folder."""

from pathlib import Path
from typing import Any

from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError

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


class FolderSource:
    """Resolves `context-summarizing` to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def resolve(self, module_id: str | None = None, source_hint: Any = None, profile_hint: Any = None) -> Any:
        if module_id is None:
            return self._folder
        if module_id != "context-summarizing":
            raise SourceNotFoundError(module_id)
        return self

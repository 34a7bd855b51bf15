"""A source resolver as applications bring one: it finds our module in a folder, and leaves the others alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from amplifier_core.module_sources import ModuleNotFoundError as SourceNotFoundError


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

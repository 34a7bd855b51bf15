"""What a shell offers where a name is typed: sessions of the store, prompts, suites and strategies.

A name that cannot be looked up is not offered. Nothing here prints an error: the shell would show it amid the line.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer

from summarizing_context.cli.stored import with_store
from summarizing_context.errors import SummarizingContextError

_STORE = "SUMMARIZING_CONTEXT_STORE"
_STRATEGIES = ("hierarchical", "summarize", "truncate", "importance")


def session_names(context: typer.Context, incomplete: str) -> list[str]:
    """Sessions of the store that `--store` names before the cursor, or that the environment names."""
    store = context.params.get("store") or os.environ.get(_STORE)
    if not store:
        return []
    try:
        found = with_store(store, lambda opened: opened.sessions(), read_only=True)
    except (SummarizingContextError, OSError):
        return []
    return [info.session_id for info in found if info.session_id.startswith(incomplete)]


def prompt_names(incomplete: str) -> list[str]:
    """Prompts that are shipped, each with its version."""
    from summarizing_context.summarizers.prompts import names

    return [name for name in names(None) if name.startswith(incomplete)]


def suite_names(incomplete: str) -> list[str]:
    """Suites of the checkout that the working folder is in."""
    from summarizing_context.evaluation.suites import FOLDER

    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / FOLDER).is_dir()), None)
    files = [] if root is None else sorted((root / FOLDER).glob("*.toml"))
    return [file.stem for file in files if file.stem.startswith(incomplete)]


def strategy_names(incomplete: str) -> list[str]:
    """Strategies; behind a comma another one."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _STRATEGIES if name.startswith(last)]

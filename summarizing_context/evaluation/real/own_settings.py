"""Settings of the user's beside their recording, so that views are rebuilt elsewhere as they were.

`settings.json` has what shapes a view and differs from its default, `prompts/` the prompts, `extractive.toml` figures.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from summarizing_context.errors import TranscriptError
from summarizing_context.evaluation.outcomes import changed_settings
from summarizing_context.settings.values import Settings
from summarizing_context.stores.private_files import make_private_folder, write_private
from summarizing_context.summarizers.prompts import names

SETTINGS, PROMPTS, PARAMETERS = "settings.json", "prompts", "extractive.toml"
_PATHS = ("prompts", "extractive_parameters", "prices")
_SHAPE_NO_VIEW = (  # of the session, the machine and the model; the budget is that of the case
    *("session_id", "project", "max_tokens", "summarizer", "model", "token_counter", "allow_download", "idle_after"),
    *("concurrency", "call_timeout", "job_timeout", "attempts", "breaker_failures", "breaker_cooldown"),
    *("max_calls_per_hour", "max_input_tokens_per_hour", "max_calls_per_session", "max_input_tokens_per_session"),
    *("embedding", "embedding_model", "vector_store", "similarity_threshold", "checkpoint_interval_messages"),
    *("memory_include", "memory_max_tokens", "memory_extract", "memory_wait", "max_wait"),
)


def settle(own: Settings, folder: Path, *, is_new: bool) -> Settings | None:
    """The settings of a folder's views, written into it if it is new; None where all are as shipped.

    Raises `TranscriptError` for a folder whose views were built otherwise.
    """
    files = _files(own)
    if is_new:
        for name, content in files.items():
            make_private_folder((folder / name).parent)
            write_private(folder / name, content)
    found = read(folder)
    if (_files(found) if found is not None else {}) != files:
        raise TranscriptError(f"{folder}: holds views with other settings or prompts; take a new folder with --out")
    return found


def read(folder: Path) -> Settings | None:
    """The settings that a folder keeps; None where it keeps none."""
    path = folder / SETTINGS
    if not path.exists():
        return None
    try:
        values: dict[str, Any] = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise TranscriptError(f"{path}: cannot be read ({error}); ask again into a new folder") from error
    settings = Settings.from_mapping(values)
    prompts, figures = folder / PROMPTS, folder / PARAMETERS
    return replace(
        settings,
        prompts=prompts if prompts.is_dir() else None,
        extractive_parameters=figures if figures.exists() else None,
    )


def _files(settings: Settings) -> dict[str, bytes]:
    """What is kept of settings, by file; nothing where all are as shipped."""
    changed = {
        name: value
        for name, value in changed_settings(settings).items()
        if name not in _PATHS and name not in _SHAPE_NO_VIEW
    }
    files: dict[str, bytes] = {}
    if settings.prompts is not None:
        root = Path(settings.prompts)
        files = {f"{PROMPTS}/{name}.md": (root / f"{name}.md").read_bytes() for name in names(root)}
    if settings.extractive_parameters is not None:
        files[PARAMETERS] = Path(settings.extractive_parameters).read_bytes()
    if changed or files:
        files[SETTINGS] = msgspec.json.format(msgspec.json.encode(changed, order="sorted"), indent=1) + b"\n"
    return files

"""Checks of the built site: no page may load anything from another host."""

from __future__ import annotations

import re
from typing import Any

from mkdocs.exceptions import PluginError

_LOADED = re.compile(
    r"<(?:script|img|iframe)[^>]+src=[\"'](?:https?:)?//|<link(?![^>]+rel=[\"']canonical)[^>]+href=[\"'](?:https?:)?//"
)


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Raise if a page names a script, style or picture of another host."""
    found = _LOADED.search(output)
    if found is not None:
        raise PluginError(f"{page.file.src_path} loads something from another host: {found[0]}")
    return output

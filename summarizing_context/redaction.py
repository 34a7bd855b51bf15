"""The caller's function that redacts, as the parts call it. What it is shown of a message, `core.redaction` says."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from threading import Lock

from summarizing_context.core.redaction import Redact
from summarizing_context.errors import SettingsError, SummarizerError


class Redaction:
    """A caller's function from text to text, tried out first. It is never run twice at once: it may come from several
    threads. A text that it cannot redact is not sent: `SummarizerError`."""

    def __init__(self, redact: Redact) -> None:
        self.version: object = getattr(redact, "version", True)  # what it takes out, if it tells
        self._redact = redact
        self._one_by_one = Lock()
        try:
            self("a text")
        except SummarizerError as error:
            raise SettingsError(f"redact must turn a text into a text; tried out, it failed: {error}") from error

    def __call__(self, text: str) -> str:
        with self._one_by_one:
            try:
                redacted = self._redact(text)
            except Exception as error:
                raise SummarizerError(f"redact raised {type(error).__name__}; nothing was sent") from error
        if not isinstance(redacted, str):
            raise SummarizerError(f"redact gave {type(redacted).__name__}, not a text; nothing was sent")
        return redacted


def load_redaction(name: str) -> Redaction:
    """The function that a command line names as `module:function`; the module may be in the current folder."""
    module, _, function = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SettingsError(
            f"redact: {name!r} cannot be loaded ({type(error).__name__}); name a function as module:function"
        ) from error
    return Redaction(found)

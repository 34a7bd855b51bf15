"""Coding clients: plug-ins, whose sources are next to this file, and how one goes on with the session of another."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from summarizing_context.errors import SettingsError
from summarizing_context.stores.private_files import replace_private

_PROGRAM = "summarizing-context"

# Plug-ins, which ask the proxy for views

_ABOUT = "Compactions by summarizing-context."
_MANIFESTS: dict[str, dict[str, Any]] = {  # of Claude Code
    f"{_PROGRAM}/.claude-plugin/plugin.json": {"name": _PROGRAM, "version": "0.9.0", "description": _ABOUT},
    f"{_PROGRAM}/hooks/hooks.json": {"description": _ABOUT, "modules": [f"./{_PROGRAM}.js"]},
}
_VIEWS, _SENDS = "its compactions, also /compact, are views", "each of its requests holds a view"
_PLUGINS = {
    # The variable that names the folder, where that is else, where plug-ins are below it, our file, what that does.
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", "skills", f"{_PROGRAM}/hooks/{_PROGRAM}.js", _VIEWS),
    "opencode": ("XDG_CONFIG_HOME", ".config", "opencode/plugin", f"{_PROGRAM}.js", _SENDS),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent", "extensions", f"{_PROGRAM}.js", _VIEWS),
}


class Plugin:
    """The plug-in of a client, which asks the proxy at the URL `service` with what the file `token` holds: its `files`
    by their place, and its `effect`."""

    def __init__(self, client: str, service: str, token: Path) -> None:
        variable, home, place, file, self.effect = _PLUGINS[client]
        self.client, self.folder = client, Path(os.environ.get(variable) or Path.home() / home) / place
        source = (Path(__file__).parent / f"{client}.js").read_text(encoding="utf-8")
        for name, value in (("SERVICE", service), ("TOKEN_FILE", str(token))):
            source = source.replace(f'"{{{{{name}}}}}"', json.dumps(value))
        others = _MANIFESTS if client == "claude-code" else {}
        self.files = {self.folder / name: json.dumps(one, indent=2).encode() + b"\n" for name, one in others.items()}
        self.files[self.folder / file] = source.encode()

    def found(self) -> list[Path]:
        """Return which of its files are there. Raise `SettingsError` where one is not of this package."""
        there = [path for path in self.files if path.exists() or path.is_symlink()]
        for path in there:
            with suppress(OSError):  # a folder, or what may not be read
                if _PROGRAM.encode() in path.read_bytes():
                    continue
            raise SettingsError(f"{path}: this is no file of {_PROGRAM}; move it away, and run the command again")
        return there

    def refusal(self) -> str:
        """Return why the client would not load it, if that is so. Raise `SettingsError` where that cannot be found."""
        name, settings = self.client.removesuffix("-code"), self.folder.parent / "settings.json"
        if (program := shutil.which(name)) is None:
            return f"{name} is not on the PATH; it loads the plug-in once it is there"
        if name != "claude":
            return ""
        try:
            told = json.loads(settings.read_text(encoding="utf-8-sig")) if settings.exists() else {}
            asked = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
        except ValueError as error:
            raise SettingsError(f"{settings}: this is no JSON ({error}); mend it, for Claude Code reads it") from error
        except (OSError, subprocess.SubprocessError) as error:
            raise SettingsError(f"{error}; check the program and its settings") from error
        is_off = isinstance(told, dict) and told.get("disableAllHooks") is True
        why = "disableAllHooks is set in its settings" if is_off else ""
        if tuple(map(int, re.findall(r"\d+", asked.stdout)[:3])) < (2, 1, 287):  # which loads them without a switch
            why = f"modules of hooks need 2.1.287, and this is {asked.stdout.strip() or 'unknown'}"
        instead = f"Without a plug-in: {_PROGRAM} proxy run --store STORE -- claude"
        return f"Claude Code will not load it: {why}. {instead}" if why else ""

    def write(self) -> None:
        """Write all files, in place of older ones. Raise `SettingsError` as `found` does; then nothing is written."""
        self.found()
        for path, content in self.files.items():
            replace_private(path, content)

    def remove(self) -> None:
        """Remove its files, and folders of its own that are empty then."""
        for path in self.found():
            path.unlink()
            for own in path.relative_to(self.folder).parents[:-1]:
                if not any((self.folder / own).iterdir()):
                    (self.folder / own).rmdir()


# A session goes on in another client

MAX_ARGUMENT = 120_000  # bytes of a prompt that is an argument, of which Linux takes up to 131,072
_STARTS: dict[str, tuple[str, set[str], list[str], list[str]]] = {
    # Program, what makes it read a prompt from standard input, its arguments then, and else those before the prompt.
    "claude-code": ("claude", {"-p", "--print"}, [], []),
    "codex": ("codex", {"exec", "e"}, ["-"], []),
    "opencode": ("opencode", {"run"}, [], ["--prompt"]),
}


def start(client: str, arguments: Sequence[str], prompt: str) -> tuple[list[str], bytes | None]:
    """Return the command that starts a client with a prompt, and what it is to read: the prompt where the arguments ask
    for no screen, as `-p`, `exec` or `run` do. Else the prompt is an argument, which `ps` shows."""
    program, without_screen, at_input, before = _STARTS[client]
    if without_screen.isdisjoint(arguments):
        return [program, *arguments, *before, prompt.replace("\0", "\N{REPLACEMENT CHARACTER}")], None
    return [program, *arguments, *at_input], prompt.encode()

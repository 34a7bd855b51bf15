"""Commands for coding clients: `install` and `uninstall` of plug-ins that ask the proxy, and `continue`, which begins a
session of another client with the view of a stored one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer

from summarizing_context.cli import options
from summarizing_context.cli.options import SERVE, STORED, argument, command, option
from summarizing_context.cli.output import PROGRAM, InputError, Result, confirm, plain
from summarizing_context.cli.serve import LISTEN, TOKEN_FILE
from summarizing_context.cli.sessions import StoredSession, view_of
from summarizing_context.stores.private_files import replace_private, token_file
from summarizing_context.transcripts.base import record

_SHIPPED = Path(__file__).parent.parent / "contrib" / "clients"
_FIRST_MODS = (2, 1, 287)  # of Claude Code that loads modules of hooks without a switch
_ABOUT = "Compactions by summarizing-context."
_MANIFESTS: dict[str, dict[str, Any]] = {  # of Claude Code
    f"{PROGRAM}/.claude-plugin/plugin.json": {"name": PROGRAM, "version": "0.9.0", "description": _ABOUT},
    f"{PROGRAM}/hooks/hooks.json": {"description": _ABOUT, "modules": [f"./{PROGRAM}.js"]},
}
_VIEWS = "its compactions, also /compact, are views"
_PLUGINS = {
    # The variable that names the folder, where that is else, where plug-ins are below it, our file, what that does.
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude", "skills", f"{PROGRAM}/hooks/{PROGRAM}.js", _VIEWS),
    "opencode": ("XDG_CONFIG_HOME", ".config", "opencode/plugin", f"{PROGRAM}.js", "each of its requests holds a view"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent", "extensions", f"{PROGRAM}.js", _VIEWS),
}
_CLIENT = argument("CLIENT", "claude-code, opencode or pi.", show_choices=False)
ClientName = Annotated[Literal["claude-code", "opencode", "pi"], _CLIENT]


def _plugin(client: str, service: str) -> tuple[Path, dict[Path, bytes], list[Path]]:
    """Return the folder, our files and those found. Raise `InputError` where one of these is not of this package."""
    variable, home, place, file, _ = _PLUGINS[client]
    folder = Path(os.environ.get(variable) or Path.home() / home) / place
    source = (_SHIPPED / f"{client}.js").read_text(encoding="utf-8")
    for name, value in (("SERVICE", service), ("TOKEN_FILE", str(token_file(TOKEN_FILE)))):
        source = source.replace(f'"{{{{{name}}}}}"', json.dumps(value))
    others = _MANIFESTS if client == "claude-code" else {}
    files = {folder / name: json.dumps(held, indent=2).encode() + b"\n" for name, held in others.items()}
    files[folder / file] = source.encode()
    found = [path for path in files if path.exists() or path.is_symlink()]
    for path in found:
        with suppress(OSError):  # a folder, or what may not be read
            if PROGRAM.encode() in path.read_bytes():
                continue
        raise InputError(f"{plain(path)}: this is no file of {PROGRAM}; move it away, and run the command again")
    return folder, files, found


@command(SERVE)
def install(
    client: ClientName,
    listen: Annotated[str, option("HOST:PORT", "Address of the proxy that it asks.")] = LISTEN,
    yes: options.Yes = False,
) -> Result:
    """Put a plug-in into a client; `uninstall` removes it.

    The plug-in asks the proxy for views. The client's settings stay as they are: it only adds files. Where the proxy
    does not run, the client goes on as without the plug-in, and says so once.

    Examples:
        install opencode
    """
    folder, files, _ = _plugin(client, options.read_address(listen)[2])

    # Why the client might not load it.
    name, settings, remarks = client.removesuffix("-code"), folder.parent / "settings.json", list[str]()
    if (program := shutil.which(name)) is None:
        remarks.append(f"{name} is not on the PATH; it loads the plug-in once it is there")
    elif client == "claude-code":
        try:
            told = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
            asked = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False)
        except ValueError as error:
            problem = f"{plain(settings)}: this is no JSON ({error}); mend it, for Claude Code reads it"
            raise InputError(problem) from error
        except (OSError, subprocess.SubprocessError) as error:
            raise InputError(f"{plain(error)}; check the program and its settings") from error
        why = "disableAllHooks is set in its settings" if record(told).get("disableAllHooks") is True else ""
        if tuple(map(int, re.findall(r"\d+", asked.stdout)[:3])) < _FIRST_MODS:
            needed, this = ".".join(map(str, _FIRST_MODS)), plain(asked.stdout) or "unknown"
            why = f"modules of hooks need {needed}, and this is {this}"
        instead = f"Without a plug-in: {PROGRAM} proxy run --store STORE -- claude"
        remarks += [f"Claude Code will not load it: {why}. {instead}"] if why else []

    confirm(f"Write {', '.join(map(str, files))}?", yes, "installed")
    for path, content in files.items():
        replace_private(path, content)
    shown = [f"Installed for {client}: {_PLUGINS[client][-1]}.", *(f"  {plain(path)}" for path in files)]
    shown.append(f"It asks the proxy at {listen}: {PROGRAM} proxy --store STORE")
    return Result({"client": client, "files": [str(path) for path in files], "remarks": remarks}, shown, 0, remarks)


@command(SERVE, hidden=True)  # that of `install` names it
def uninstall(client: ClientName, yes: options.Yes = False) -> Result:
    """Remove a client's plug-in, and nothing else.

    Examples:
        uninstall opencode
    """
    folder, _, found = _plugin(client, "")
    if not found:
        return Result({"client": client, "files": []}, [f"Nothing is installed for {client}."])
    confirm(f"Remove {', '.join(map(str, found))}?", yes, "removed")
    for path in found:
        path.unlink()
        for own in path.relative_to(folder).parents[:-1]:  # our own, once they are empty
            if not any((folder / own).iterdir()):
                (folder / own).rmdir()
    return Result({"client": client, "files": list(map(str, found))}, [f"Removed {plain(path)}." for path in found])


# A session goes on in another client

_MOST_BYTES = 120_000  # of one argument, which Linux takes up to 131,072 of
_STARTS: dict[str, tuple[str, set[str], list[str], list[str]]] = {
    # Program, what makes it read a prompt from standard input, its arguments then, and else those before the prompt.
    "claude-code": ("claude", {"-p", "--print"}, [], []),
    "codex": ("codex", {"exec", "e"}, ["-"], []),
    "opencode": ("opencode", {"run"}, [], ["--prompt"]),
}
_OTHER_CLIENT = option("CLIENT", "claude-code, codex or opencode.", "--in", show_choices=False)
_FIRST = (
    "This work was begun in another session. What follows is its past as far as it matters: summaries, then the newest "
    "messages as they were. Tools that are named there may be called otherwise here."
)
_LAST = "Say in two sentences where the work stands, and wait for what to do next."


@command(STORED, "continue", hidden=True, context_settings={"ignore_unknown_options": True})
def continue_in(
    at: StoredSession,
    client: Annotated[Literal["claude-code", "codex", "opencode"], _OTHER_CLIENT],
    words: Annotated[list[str] | None, argument("-- OPTIONS", "Of the client.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the first prompt; start nothing.")] = False,
) -> Result:
    """Begin a session of another client with this view.

    The client starts in this folder, and the view is its first prompt, summaries included. With the plug-in of
    `install` and a proxy on this store the log itself goes on; else it stays as it is. Without a screen, as by `-p`,
    `exec` or `run`, the client reads the prompt from its standard input; else `ps` shows it as an argument.

    Examples:
        continue s1 --store run.db --in claude-code -- -p
    """
    settings, rest = at.find(words or [])
    from summarizing_context.contrib.proxy.dialects import handover_line, view_texts

    view, log, parts, _ = anyio.run(view_of, settings)
    texts = view_texts(view, [part in ("header", "block") for part in parts])
    prompt = "\n\n".join([handover_line(settings.session_id, log), _FIRST, *texts, _LAST])
    program, without_screen, at_input, before = _STARTS[client]
    is_read = not without_screen.isdisjoint(rest)
    started = [program, *rest, *(at_input if is_read else [*before, prompt])]
    if not is_read and (size := len(prompt.encode())) > _MOST_BYTES:
        raise InputError(f"--budget: the view takes {size:,} bytes, too many for a prompt; try --budget 20k")
    document = {"session": settings.session_id, "client": client, "messages": len(log), "prompt": prompt}
    if dry_run:
        return Result({**document, "status": None}, [prompt])
    if shutil.which(program) is None:
        raise InputError(f"--in: {program} is not on the PATH; install it, or see the prompt with --dry-run")
    status = subprocess.run(started, input=prompt.encode() if is_read else None, check=False).returncode
    return Result({**document, "status": status}, [], status if status >= 0 else 128 - status)

"""Commands for coding clients: `install` and `uninstall` of plug-ins that ask the proxy, and `continue`, which begins a
session of another client with the view of a stored one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import typer

from summarizing_context.cli import options
from summarizing_context.cli.options import SERVE, STORED, argument, command, option
from summarizing_context.cli.output import InputError, Result, confirm, plain
from summarizing_context.cli.serve import LISTEN, TOKEN_FILE
from summarizing_context.cli.sessions import StoredSession
from summarizing_context.stores.private_files import replace_private, token_file

commands = typer.Typer()

NAME = "summarizing-context"
_SHIPPED = Path(__file__).parent.parent / "contrib" / "clients"
_FIRST_MODS = (2, 1, 287)  # of Claude Code that loads modules of hooks without a switch


def _home(variable: str, *folders: str) -> Path:
    """Return the folder that a variable of the environment names, else one below the home folder."""
    named = os.environ.get(variable)
    return Path(named) if named else Path.home().joinpath(*folders)


@dataclass(frozen=True, slots=True)
class Client:
    """A client that takes plug-ins."""

    program: str
    home: tuple[str, ...]  # a variable that names its folder, and where that is else
    place: str  # below it, where the client looks for plug-ins
    file: str  # of the plug-in, in this place
    does: str

    @property
    def folder(self) -> Path:
        """The folder of its plug-ins."""
        return _home(*self.home) / self.place


_VIEWS = "its compactions, also /compact, are views"
CLIENTS = {
    "claude-code": Client("claude", ("CLAUDE_CONFIG_DIR", ".claude"), "skills", f"{NAME}/hooks/{NAME}.js", _VIEWS),
    "opencode": Client(
        "opencode", ("XDG_CONFIG_HOME", ".config"), "opencode/plugin", f"{NAME}.js", "each of its requests holds a view"
    ),
    "pi": Client("pi", ("PI_CODING_AGENT_DIR", ".pi", "agent"), "extensions", f"{NAME}.js", _VIEWS),
}
_ABOUT = "Compactions by summarizing-context."
_MANIFESTS = {  # of Claude Code
    f"{NAME}/.claude-plugin/plugin.json": {"name": NAME, "version": "0.2.0", "description": _ABOUT},
    f"{NAME}/hooks/hooks.json": {"description": _ABOUT, "modules": [f"./{NAME}.js"]},
}

ClientName = Annotated[
    Literal["claude-code", "opencode", "pi"], argument("CLIENT", "claude-code, opencode or pi.", show_choices=False)
]


def plugin_files(client: str, service: str) -> dict[Path, bytes]:
    """Return the files of a client's plug-in as they are installed, by their paths."""
    folder = CLIENTS[client].folder
    source = (_SHIPPED / f"{client}.js").read_text(encoding="utf-8")
    for name, value in (("SERVICE", service), ("TOKEN_FILE", str(token_file(TOKEN_FILE)))):
        source = source.replace(f'"{{{{{name}}}}}"', json.dumps(value))
    manifests = _MANIFESTS.items() if client == "claude-code" else ()
    files = {folder / name: json.dumps(held, indent=2).encode() + b"\n" for name, held in manifests}
    return {**files, folder / CLIENTS[client].file: source.encode()}


def _present(files: dict[Path, bytes]) -> list[Path]:
    """Return which of these files are there. Raise `InputError` where one is not of this package."""
    found = [path for path in files if path.exists() or path.is_symlink()]
    for path in found:
        try:
            is_ours = NAME.encode() in path.read_bytes()
        except OSError:  # a folder, or what may not be read
            is_ours = False
        if not is_ours:
            raise InputError(f"{plain(path)}: this is no file of {NAME}; move it away, and run the command again")
    return found


def _cautions(client: str) -> list[str]:
    """Return why a client might not load its plug-in. Raise `InputError` where its settings cannot be read."""
    program = shutil.which(CLIENTS[client].program)
    if program is None:
        return [f"{CLIENTS[client].program} is not on the PATH; it loads the plug-in once it is there"]
    if client != "claude-code":
        return []
    settings = _home("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    try:
        told = json.loads(settings.read_text(encoding="utf-8")) if settings.exists() else {}
        is_off = isinstance(told, dict) and told.get("disableAllHooks") is True
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except ValueError as error:
        raise InputError(f"{plain(settings)}: this is no JSON ({error}); mend it, for Claude Code reads it") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"{plain(error)}; check the program and its settings") from error
    version = tuple(map(int, re.findall(r"\d+", said)[:3]))
    why = "disableAllHooks is set in its settings" if is_off else ""
    if version < _FIRST_MODS:
        why = f"modules of hooks need {'.'.join(map(str, _FIRST_MODS))}, and this is {plain(said) or 'unknown'}"
    instead = f"{NAME} proxy run --store STORE -- claude"
    return [f"Claude Code will not load it: {why}. Without a plug-in: {instead}"] if why else []


@command(commands, SERVE)
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
    files = plugin_files(client, options.url_of(*options.read_address(listen)))
    _present(files)
    remarks = _cautions(client)
    confirm(f"Write {', '.join(map(str, files))}?", yes, "installed")
    for path, content in files.items():
        replace_private(path, content)
    shown = [f"Installed for {client}: {CLIENTS[client].does}.", *(f"  {plain(path)}" for path in files)]
    shown.append(f"It asks the proxy at {listen}: {NAME} proxy --store STORE")
    return Result({"client": client, "files": [str(path) for path in files], "remarks": remarks}, shown, 0, remarks)


@command(commands, SERVE, hidden=True)  # that of `install` names it
def uninstall(client: ClientName, yes: options.Yes = False) -> Result:
    """Remove a client's plug-in, and nothing else.

    Examples:
        uninstall opencode
    """
    found, folder = _present(plugin_files(client, "")), CLIENTS[client].folder
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


@dataclass(frozen=True, slots=True)
class Start:
    """How a client begins with a prompt: where it runs without a screen it reads that from its standard input."""

    program: str
    without_screen: frozenset[str]  # options and commands
    at_input: tuple[str, ...] = ()  # arguments that stand for the prompt then
    before: tuple[str, ...] = ()  # else it is an argument behind these


_STARTS = {
    "claude-code": Start("claude", frozenset({"-p", "--print"})),
    "codex": Start("codex", frozenset({"exec", "e"}), at_input=("-",)),
    "opencode": Start("opencode", frozenset({"run"}), before=("--prompt",)),
}


@command(commands, STORED, "continue", hidden=True, context_settings={"ignore_unknown_options": True})
def continue_in(
    at: StoredSession,
    client: Annotated[
        Literal["claude-code", "codex", "opencode"],
        option("CLIENT", "claude-code, codex or opencode.", "--in", show_choices=False),
    ],
    words: Annotated[list[str] | None, argument("-- OPTIONS", "Of the client.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the first prompt; start nothing.")] = False,
) -> Result:
    """Begin a session of another client with this view.

    The client starts in this folder, and the view is its first prompt, summaries included. With the plug-in of
    `install` and a proxy on this store the log itself goes on; else it stays as it is. Without a screen, as by `-p`,
    `exec` or `run`, the client reads the prompt from its standard input; else `ps` shows it as an argument.

    Examples:
        continue s1 --store run.db --in codex
        continue s1 --store run.db --in claude-code -- -p
    """
    settings, rest = at.find(words or [])
    prompt, messages = anyio.run(_prompt, settings)
    start = _STARTS[client]
    is_read = not start.without_screen.isdisjoint(rest)
    started = [start.program, *rest, *(start.at_input if is_read else (*start.before, prompt))]
    if not is_read and (size := len(prompt.encode())) > _MOST_BYTES:
        raise InputError(f"--budget: the view takes {size:,} bytes, too many for a prompt; try --budget 20k")
    document = {"session": settings.session_id, "client": client, "messages": messages, "prompt": prompt}
    if dry_run:
        return Result({**document, "status": None}, [prompt])
    if shutil.which(start.program) is None:
        raise InputError(f"--in: {start.program} is not on the PATH; install it, or see the prompt with --dry-run")
    status = subprocess.run(started, input=prompt.encode() if is_read else None, check=False).returncode
    return Result({**document, "status": status}, [], status if status >= 0 else 128 - status)


async def _prompt(settings: Any) -> tuple[str, int]:
    """Return the view of a session as one text, and how many messages of the log it stands for."""
    from summarizing_context.assembly import open_context
    from summarizing_context.contrib.proxy.plugins import handover_line, view_texts
    from summarizing_context.evaluation.laws import view_parts

    async with open_context(settings, read_only=True) as context:
        view = await context.get_messages_for_request(token_budget=settings.max_tokens)
        log = await context.get_messages()
    texts = view_texts(view, [part in ("header", "block") for part in view_parts(view, log)])
    return "\n\n".join([handover_line(settings.session_id, log), _FIRST, *texts, _LAST]), len(log)


_FIRST = (
    "This work was begun in another session. What follows is its past as far as it matters: summaries, then the newest "
    "messages as they were. Tools that are named there may be called otherwise here."
)
_LAST = "Say in two sentences where the work stands, and wait for what to do next."

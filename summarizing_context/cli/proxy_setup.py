"""`summarizing-context proxy enable` and `disable`: every client of the user's goes through the proxy, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from summarizing_context.cli.mcp import read_address
from summarizing_context.cli.output import InputError, Status, notices, plain, screen
from summarizing_context.settings.providers import PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.proxy.installation import Command, Edit

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be written; write nothing.")]
Shell = Annotated[str | None, typer.Option("--shell", metavar="NAME", help="bash, zsh or fish. Default: from $SHELL.")]
NoService = Annotated[bool, typer.Option("--no-service", help="Write the shell lines only; start the proxy yourself.")]


def enable(
    options: Sequence[str],
    *,
    listen: str,
    summarizer: str | None,
    upstreams: dict[str, str | None],
    shell: str | None,
    no_service: bool,
    yes: bool,
    dry_run: bool,
) -> int:
    """Show and write the shell's lines and the service, and start it. `options` are those of the served proxy."""
    from summarizing_context.proxy.installation import add_lines, add_service, base_urls, service_of, shell_files

    host, port = read_address(listen, "--listen")
    if not ip_address(host).is_loopback or port == 0:
        raise InputError("--listen: clients of this machine ask an address of the loopback; write it like 8377")
    if not no_service and summarizer in PROVIDERS:
        raise InputError(f"a service has no key for --summarizer {summarizer}; take client, or --no-service")
    shell = _shell(shell)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    path = shell_files(shell, Path.home(), os.environ, sys.platform)[0]
    _check_addresses(base_urls(address), upstreams, path)
    edits = [edit] if (edit := add_lines(path, shell, address)) is not None else []
    calls: Sequence[Command] = ()
    if not no_service:
        command = [sys.executable, "-m", "summarizing_context", "proxy", *options, "--listen", f"{host}:{port}"]
        service = service_of(sys.platform, Path.home(), os.environ, command)
        unit = add_service(service)
        edits += [unit] if unit is not None else []
        calls = service.start if unit is None else service.restart
    if not edits:
        notices().print("everything is written already")
    if not _agreed("Write", edits, calls, yes=yes, dry_run=dry_run):
        return Status.OK
    for edit in edits:
        edit.apply()
    status = _called(calls)
    notices().print(f"new shells send their clients to {address}; `summarizing-context proxy disable` takes it back")
    return status


def disable(*, yes: Yes = False, dry_run: DryRun = False) -> int:
    """Take back what `proxy enable` has written: the marked lines of each shell, and the service.

    Both are shown first. Everything else in these files stays byte for byte.
    """
    from summarizing_context.proxy.installation import SHELLS, remove_lines, remove_service, service_of, shell_files

    home = Path.home()
    paths = [path for shell in SHELLS for path in shell_files(shell, home, os.environ, sys.platform)]
    lines = [edit for path in paths if (edit := remove_lines(path)) is not None]
    service = service_of(sys.platform, home, os.environ, [])
    unit = remove_service(service)
    edits = [*lines, *([unit] if unit is not None else [])]
    if not edits:
        notices().print("nothing to remove")
        return Status.OK
    calls = [*service.stop, *service.forget] if unit is not None else []
    if not _agreed("Remove", edits, calls, yes=yes, dry_run=dry_run):
        return Status.OK
    status = _called(service.stop) if unit is not None else Status.OK
    for edit in edits:
        edit.apply()
    if unit is not None:
        status = max(status, _called(service.forget))
    notices().print("shells that are open keep the addresses until they end")
    return status


def _shell(given: str | None) -> str:
    from summarizing_context.proxy.installation import SHELLS

    name = Path(os.environ.get("SHELL", "")).name if given is None else given
    if name not in SHELLS:
        raise InputError(f"--shell: {plain(name, 40)!r} is not known; give one of {', '.join(SHELLS)}")
    return name


def _check_addresses(urls: dict[str, str], upstreams: dict[str, str | None], path: Path) -> None:
    """An address that a client is given already would be lost: it has to be named as the provider's."""
    from summarizing_context.proxy.installation import read_file

    written = (read_file(path) or b"").decode("utf-8", "replace")
    for (name, url), (option, upstream) in zip(urls.items(), upstreams.items(), strict=True):
        present = os.environ.get(name)
        if present and present != url and upstream is None and f"{present}\n" not in written:
            raise InputError(f"{name} is {plain(present, 200)} already; add {option} {plain(present, 200)} to keep it")


def _agreed(word: str, edits: Sequence[Edit], calls: Sequence[Command], *, yes: bool, dry_run: bool) -> bool:
    """Show everything, and ask. Raises `InputError` where the answer is no."""
    console = screen()
    for edit in edits:
        console.print(f"{word} in {edit.path}:", soft_wrap=True)
        console.print(edit.shown.rstrip("\n"), soft_wrap=True)
        console.print("")
    for call in calls:
        console.print(f"Run: {' '.join(call.words)}", soft_wrap=True)
    if dry_run or yes or not edits:
        return not dry_run
    try:
        agreed = typer.confirm("Go on?", err=True)
    except typer.Abort as error:
        raise InputError("nothing was changed: there was no answer; give --yes to do it without asking") from error
    if not agreed:
        raise InputError("nothing was changed")
    return True


def _called(calls: Sequence[Command]) -> Status:
    """Call the service manager; say what it could not do."""
    for call in calls:
        try:
            done = subprocess.run(call.words, capture_output=True, text=True, timeout=30, check=False)
            said, failed = done.stderr.strip(), done.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, failed = type(error).__name__, True
        if failed and not call.may_fail:
            words = plain(f"{' '.join(call.words)} failed ({said[:200]}); the files are in place, call it by hand")
            notices().print(words, soft_wrap=True)
            return Status.ENVIRONMENT
    return Status.OK

"""What `proxy enable` writes and `proxy disable` removes: a token, lines of a shell and of Codex, and a service.

Only `Edit.apply` and `read_file` touch files. Starting and stopping the service is the caller's work.
"""

from __future__ import annotations

import json
import os
import plistlib
import re
import secrets
import shlex
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from summarizing_context.errors import SettingsError

SHELLS = ("bash", "zsh", "fish")

_BEGIN, _END = "# >>> summarizing-context proxy >>>", "# <<< summarizing-context proxy <<<"

_BLOCK = re.compile(rf"^{_BEGIN}\n.*?^{_END}\n?".encode(), re.MULTILINE | re.DOTALL)

_UNIT, _LABEL = "summarizing-context-proxy.service", "io.github.summarizing-context.proxy"

_MADE = "# made by `summarizing-context proxy enable`; `summarizing-context proxy disable` removes this file"


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of one file. None stands for a file that is not there."""

    path: Path
    before: bytes | None
    after: bytes | None
    shown: str  # the text that is written or removed, in full
    is_private: bool = False  # it holds the token: nobody else may read it

    def apply(self) -> None:
        """Write or remove the file, whole or not at all. Raises `SettingsError` where it has changed meanwhile."""
        if read_file(self.path) != self.before:
            raise SettingsError(f"{self.path} has changed meanwhile; nothing was written to it, call it again")
        if self.after is None:
            self.path.unlink()
            return
        place = self.path.resolve()  # a link to a file kept elsewhere stays a link
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place.parent, prefix=f".{place.name}.", delete=False) as file:
            file.write(self.after)
        if self.before is not None:
            os.chmod(file.name, place.stat().st_mode & (0o700 if self.is_private else 0o7777))
        os.replace(file.name, place)

    def undo(self) -> None:
        """Take the change back."""
        Edit(self.path, self.after, self.before, self.shown).apply()


class Command(NamedTuple):
    """A call of the system's service manager."""

    words: Sequence[str]
    may_fail: bool = False


class Service(NamedTuple):
    """A proxy that the system starts when its user logs in."""

    path: Path
    text: bytes
    start: Sequence[Command]
    restart: Sequence[Command]
    stop: Sequence[Command]  # before the file is removed
    forget: Sequence[Command]  # after it


def read_file(path: Path) -> bytes | None:
    """The bytes of a file; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def shell_files(shell: str, home: Path, environ: Mapping[str, str], platform: str) -> list[Path]:
    """The files that a shell reads at its start; the first is the one that is written."""
    if shell == "bash":  # a terminal of macOS starts a login shell
        names = (".bash_profile", ".bashrc") if platform == "darwin" else (".bashrc", ".bash_profile")
        return [home / name for name in names]
    if shell == "zsh":
        return [Path(environ.get("ZDOTDIR") or home) / ".zshrc"]
    return [Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish" / "config.fish"]


def base_urls(address: str, token: str | None) -> dict[str, str]:
    """What clients read, for a proxy at this address."""
    address = address if token is None else f"{address}/token/{token}"
    return {"ANTHROPIC_BASE_URL": address, "OPENAI_BASE_URL": f"{address}/v1"}


def shell_lines(shell: str, address: str, tokens: Path) -> list[str]:
    """Return the lines that send clients to a proxy. They read the token: start files of shells are open to others."""
    read = f"(cat {shlex.quote(str(tokens))})"
    if shell == "fish":
        return [f"set -gx {name} {url}" for name, url in base_urls(address, read).items()]
    return [f'export {name}="{url}"' for name, url in base_urls(address, f"${read}").items()]


def add_token(path: Path) -> tuple[str, Edit | None]:
    """Return the token that is kept in a file, and the edit that writes a new one where there is none."""
    if (before := read_file(path)) is not None:
        return before.decode("ascii").strip(), None
    token = secrets.token_hex(20)
    return token, Edit(path, None, f"{token}\n".encode(), "(the token of the proxy)")


def add_lines(path: Path, lines: Sequence[str], *, is_top: bool = False) -> Edit | None:
    """Return the marked block of these lines, behind a line end at the end of a file; None where it stands there.

    With `is_top` it stands at the beginning, and the file becomes one that its owner alone may read.
    """
    before = read_file(path)
    held = before or b""
    block = "\n".join((_BEGIN, *lines, _END)) + "\n"
    if found := _only_block(path, held):
        after = held[: found.start()] + block.encode() + held[found.end() :]
    elif is_top:
        after = block.encode() + held
    else:
        after = held + b"\n" * bool(held) + block.encode()
    return None if after == before else Edit(path, before, after, block, is_private=is_top)


def remove_lines(path: Path) -> Edit | None:
    """Return the file as it was before its marked block was added; None where it has none. One that holds nothing else
    is removed."""
    before = read_file(path)
    if before is None or (found := _only_block(path, before)) is None:
        return None
    start, stop = found.span()
    if start and (stop == len(before) or before[:start].endswith(b"\n\n")):
        start -= 1  # the line end in front; lines that came later stay apart from those before
    return Edit(path, before, before[:start] + before[stop:] or None, found[0].decode("utf-8", "replace"))


def service_of(platform: str, home: Path, environ: Mapping[str, str], command: Sequence[str]) -> Service:
    """Return the service that runs a command, of launchd on macOS and of systemd elsewhere. Raise `SettingsError`."""
    if any(char in word for word in command for char in "\n\r\0"):
        raise SettingsError("a service cannot be given a word with a line end in it")
    if platform == "darwin":
        path, domain = home / "Library" / "LaunchAgents" / f"{_LABEL}.plist", f"gui/{os.getuid()}"
        asked = {"Label": _LABEL, "ProgramArguments": list(command), "RunAtLoad": True, "Umask": 0o077}
        text = plistlib.dumps({**asked, "KeepAlive": {"SuccessfulExit": False}})
        begin = Command(("launchctl", "bootstrap", domain, str(path)))
        end = Command(("launchctl", "bootout", f"{domain}/{_LABEL}"), may_fail=True)
        return Service(path, text, start=[begin._replace(may_fail=True)], restart=[end, begin], stop=[end], forget=[])
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user"
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$"})
    words = " ".join(f'"{word.translate(escapes)}"' for word in command)
    lines = [
        *(_MADE, "[Unit]", "Description=Local proxy that keeps long sessions of clients inside the model's window", ""),
        *("[Service]", f"ExecStart={words}", "Restart=on-failure", "TimeoutStopSec=10"),
        *("UMask=0077", "NoNewPrivileges=yes", "", "[Install]", "WantedBy=default.target", ""),
    ]
    named = ("daemon-reload", f"enable {_UNIT}", f"start {_UNIT}", f"restart {_UNIT}", f"disable --now {_UNIT}")
    reload, enable, begin, again, disable = (Command(("systemctl", "--user", *words.split())) for words in named)
    start, restart, text = [reload, enable, begin], [reload, enable, again], "\n".join(lines).encode()
    return Service(folder / _UNIT, text, start=start, restart=restart, stop=[disable], forget=[reload])


def add_service(service: Service) -> Edit | None:
    """Return the file of a service; None where it stands there already. Raise `SettingsError` for another's."""
    before = read_file(service.path)
    if before is not None and not _is_ours(before):
        raise SettingsError(f"{service.path} was not made by `proxy enable`; move it away, or give --no-service")
    return None if before == service.text else Edit(service.path, before, service.text, service.text.decode())


def remove_service(service: Service) -> Edit | None:
    """Return the removal of the file of a service; None where there is none that `proxy enable` has made."""
    before = read_file(service.path)
    if before is None or not _is_ours(before):
        return None
    return Edit(service.path, before, None, before.decode("utf-8", "replace"))


def _is_ours(text: bytes) -> bool:
    return text.startswith(_MADE.encode()) or f"<string>{_LABEL}</string>".encode() in text


def _only_block(path: Path, held: bytes) -> re.Match[bytes] | None:
    begins, ends = held.count(_BEGIN.encode()), held.count(_END.encode())
    found = _BLOCK.search(held)
    if (begins, ends) not in ((0, 0), (1, 1)) or (begins == 1 and found is None):
        raise SettingsError(f"{path}: the lines between {_BEGIN!r} and {_END!r} are not whole; remove them by hand")
    return found


# Codex reads no base URL from the environment, but its configuration alone. Measured with Codex 0.169 and 0.171:
# `OPENAI_BASE_URL` is ignored; `openai_base_url` and a table of `model_providers` count, in `config.toml` and by `-c`.
# A session is resumed with the provider's name that it began with, or not at all.

TOKEN_HEADER = b"x-summarizing-context-token"
TOKEN_VARIABLE = "SUMMARIZING_CONTEXT_PROXY_TOKEN"
CHATGPT = "https://chatgpt.com/backend-api/codex"  # where Codex asks with a login of ChatGPT
_CODEX_PROVIDER = "summarizing-context"


class Codex(NamedTuple):
    """What Codex is set to."""

    config: Path
    provider: str
    base_url: str | None
    by_chatgpt: bool  # its login

    def trouble(self, token: str, *, openai: str | None) -> str | None:
        """Return why its requests cannot be sent through a proxy in front of `openai`, or None."""
        if self.by_chatgpt and openai is None:
            return "its login of ChatGPT asks another server, and packed; use `summarizing-context proxy run -- codex`"
        if self.provider not in ("openai", _CODEX_PROVIDER):
            return f"{self.config}: model_provider is {self.provider!r}, and the proxy stands in for OpenAI alone"
        if self.base_url is not None and f"/token/{token}/" not in self.base_url:
            return f"{self.config}: openai_base_url is {self.base_url!r}; take it out, and name it by --openai instead"
        return None


def config_file(environ: Mapping[str, str], home: Path) -> Path:
    """Return where Codex keeps its configuration."""
    return Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"


def read_codex(environ: Mapping[str, str], home: Path) -> Codex | None:
    """Return what Codex is set to, or None where it has no folder. Raises `SettingsError` for a broken file."""
    config = config_file(environ, home)
    login = config.with_name("auth.json")
    if not config.parent.is_dir():
        return None
    try:
        told = tomllib.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
        known = json.loads(login.read_text(encoding="utf-8")) if login.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"the files of Codex in {config.parent} cannot be read: {error}") from error
    by_chatgpt = bool(known.get("tokens")) and not known.get("OPENAI_API_KEY")
    return Codex(config, told.get("model_provider", "openai"), told.get("openai_base_url"), by_chatgpt)


def arguments_for(address: str, *, by_chatgpt: bool) -> list[str]:
    """Return what sends one run of Codex to a proxy. The token goes by the environment: all users see arguments.

    To a provider that is called OpenAI, Codex sends fields that are documented nowhere, and asks it to compact. With a
    login of ChatGPT it is OpenAI that answers, and then a header of routing is sent too.
    """
    called = "OpenAI" if by_chatgpt else _CODEX_PROVIDER
    table = (
        f'name = "{called}", base_url = "{address}/v1", wire_api = "responses", requires_openai_auth = true, '
        f'supports_websockets = false, env_http_headers = {{ "{TOKEN_HEADER.decode()}" = "{TOKEN_VARIABLE}" }}'
    )
    words = ["-c", f"model_providers.{_CODEX_PROVIDER}={{ {table} }}", "-c", f"model_provider={_CODEX_PROVIDER}"]
    return words + (["-c", "features.enable_request_compression=false"] if by_chatgpt else [])  # views need the text

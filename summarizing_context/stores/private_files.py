"""Files and folders for their owner alone: all that holds text of sessions, or the token of a server, is written here.

A folder that was there before keeps its rights; a file that was there loses those of others.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from summarizing_context.errors import SettingsError

FOLDER, FILE = 0o700, 0o600


def make_private_folder(folder: Path) -> None:
    """Make a folder, with those above it that are missing."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=FOLDER, exist_ok=True)
        one.chmod(FOLDER)  # the umask may have taken our own rights
    folder.mkdir(exist_ok=True)  # raises where it is no folder


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file whole, in place of what it held. Text becomes UTF-8; halves of characters become question marks."""
    with open_private(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))


def replace_private(path: Path, content: bytes, *, new: bool = False) -> None:
    """Write a file whole, or leave what it held: a process that ends halfway leaves no half of a file. Folders that
    are missing are made. `new` raises `FileExistsError` if it is there."""
    make_private_folder(path.parent)
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
    try:
        write_private(beside, content)
        (os.link if new else os.replace)(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def open_private(path: Path, *, new: bool = False, append: bool = False) -> Iterator[BinaryIO]:
    """A file to be written, emptied before unless to `append`; `new` raises `FileExistsError` if it is there."""
    how = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC) | (os.O_EXCL if new else 0)
    with os.fdopen(os.open(path, how, FILE), "ab" if append else "wb") as file:
        known = os.fstat(file.fileno())
        if stat.S_ISREG(known.st_mode) and stat.S_IMODE(known.st_mode) != FILE:
            os.fchmod(file.fileno(), FILE)  # before anything is in it; pipes and devices stay as they are
        yield file


def token_file(name: str) -> Path:
    """Where a server's token is kept for its clients; by the home alone, which a service and a shell agree on."""
    return Path.home() / ".config" / "summarizing-context" / name


def checked_token(token: str) -> str:
    """Return a token that may stand in an address. Raises `SettingsError` for others."""
    if len(token) < 16 or not token.isascii() or not token.isalnum():
        raise SettingsError("the token has to be 16 or more letters and digits")
    return token


def kept_token(path: Path) -> str:
    """Return the token that a file holds; a file that is missing is made with a new one. Raises `SettingsError`."""
    try:
        if not path.exists():
            with suppress(FileExistsError):  # one, if others make it too
                replace_private(path, f"{secrets.token_hex(20)}\n".encode(), new=True)
        token, mode = path.read_text(encoding="utf-8", errors="replace").strip(), path.stat().st_mode
    except OSError as error:
        raise SettingsError(f"the token in {path} cannot be read or made: {error}; give --token") from error
    if stat.S_IMODE(mode) & 0o077:
        raise SettingsError(f"{path} can be read by others; remove it, and start again for a new token")
    return checked_token(token)

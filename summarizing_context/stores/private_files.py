"""Files and folders that nobody else may read: all that holds text of sessions is written here.

A folder that was there before keeps its rights; a file that was there loses those of others.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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


def replace_private(path: Path, content: bytes) -> None:
    """Write a file whole, or leave what it held: a process that ends halfway leaves no half of a file. Folders that
    are missing are made."""
    make_private_folder(path.parent)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        write_private(beside, content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def open_private(path: Path, *, append: bool = False, new: bool = False) -> Iterator[BinaryIO]:
    """A file to be written, emptied before unless it is appended to; `new` raises `FileExistsError` if it is there."""
    how = os.O_APPEND if append else os.O_TRUNC
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | how | (os.O_EXCL if new else 0), FILE), "wb") as file:
        known = os.fstat(file.fileno())
        if stat.S_ISREG(known.st_mode) and stat.S_IMODE(known.st_mode) != FILE:
            os.fchmod(file.fileno(), FILE)  # before anything is in it; pipes and devices stay as they are
        yield file

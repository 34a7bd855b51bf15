"""Find, read, render and hash the prompt files. What the prompts say is in `prompts/`, and nowhere else.

A file is front matter, a line `purpose: …` between two lines `---`, then the text with `{{placeholders}}`.
Its hash is part of every summary's recipe: a changed text means that summaries are made again.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from summarizing_context.errors import PromptError
from summarizing_context.stores.private_files import make_private_folder, replace_private

_NAME = re.compile(r"([a-z][a-z0-9_]*)/v([1-9][0-9]{0,5})")
_PLACEHOLDER = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version of one prompt."""

    name: str
    version: int
    purpose: str
    text: str

    @property
    def hash(self) -> str:
        """SHA-256, hex, of everything that can reach a model."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def placeholders(self) -> frozenset[str]:
        """What `render` has to be given."""
        return frozenset(_PLACEHOLDER.findall(self.text))

    def render(self, **values: str | int) -> str:
        """Return the text with every placeholder filled in, once: what a value contains is left as it is."""
        if self.placeholders != values.keys():
            has, needs = (", ".join(sorted(each)) or "none" for each in (self.placeholders, values))
            raise PromptError(f"prompt {self.name}/v{self.version}: its placeholders are {has}; they must be {needs}")
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), self.text)


def prompts_root() -> Traversable:
    """Return the prompt folder: inside the installed package, or beside it in a checkout."""
    installed = files("summarizing_context") / "prompts"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "prompts"


def names(root: Traversable | None = None) -> list[str]:
    """Return all prompts of a folder, such as `segment/v1`, by purpose and version."""
    folders = [folder for folder in (root or prompts_root()).iterdir() if folder.is_dir()]
    there = [f"{folder.name}/{file.name}" for folder in folders for file in folder.iterdir()]
    found = [match for file in there if (match := re.fullmatch(rf"{_NAME.pattern}\.md", file))]
    return [f"{match[1]}/v{match[2]}" for match in sorted(found, key=lambda match: (match[1], int(match[2])))]


def load(name: str, *, root: Traversable | None = None) -> Prompt:
    """Return one version of a prompt, such as `segment/v1`."""
    if not isinstance(name, str) or not (matched := _NAME.fullmatch(name)):
        raise PromptError(f"{name!r} is not the name of a prompt; write it like segment/v1")
    file = (root or prompts_root()) / matched[1] / f"v{matched[2]}.md"
    content = read_text(file)
    parts = re.fullmatch(r"---\n(.*?)\n---\n(.*)", content, re.DOTALL)
    purpose = re.search(r"^purpose: *(\S.*)$", parts[1], re.MULTILINE) if parts else None
    if parts is None or purpose is None or not parts[2].strip():
        raise PromptError(
            f"prompt {name}: a file is front matter with its `purpose: …` between two lines `---`, then its text"
        )
    return Prompt(matched[1], int(matched[2]), purpose[1].strip(), parts[2].strip())


def read_text(file: Traversable) -> str:
    """Return what the file of a prompt holds. Raise `PromptError` where it cannot be read, or is not UTF-8."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError, KeyError) as error:
        raise PromptError(f"{file} cannot be read as a prompt: {error}") from error


def latest(purpose: str, *, root: Traversable | None = None) -> Prompt:
    """Return the newest version of a prompt, such as `segment`."""
    if versions := [name for name in names(root) if name.startswith(f"{purpose}/")]:
        return load(versions[-1], root=root)
    there = f" in {root}" if root is not None else "; `summarizing-context prompts list` names those there are"
    raise PromptError(f"there is no prompt {purpose!r}{there}")


def find(name: str, root: Traversable | None = None) -> Prompt:
    """Return a version such as `segment/v3`, or the newest of `segment`, of a folder, else of the shipped prompts."""
    for folder in (root or prompts_root(), prompts_root()):
        known = names(folder)
        if any(one == name or one.startswith(f"{name}/") for one in known):
            return load(name, root=folder) if name in known else latest(name, root=folder)
    raise PromptError(f"there is no prompt {name[:40]!r}; there are {', '.join(known)}")


_shipped = cache(latest)  # to find and read them is half of what opening a session takes


def in_use(purpose: str, folder: str | Path | None) -> Prompt:
    """Return the newest version of a prompt in a user's folder, else the newest that is shipped."""
    if folder is None:
        return _shipped(purpose)
    root = Path(folder)
    if not root.is_dir():
        raise PromptError(f"prompts: {folder} is not a folder; name one that holds files such as segment/v1.md")
    if unknown := {name.partition("/")[0] for name in names(root)} - {name.partition("/")[0] for name in names()}:
        raise PromptError(f"prompts: {folder}/{min(unknown)} is no purpose of a prompt, as segment and rollup are")
    return latest(purpose, root=root) if (root / purpose).is_dir() else _shipped(purpose)


def save(prompt: Prompt, folder: Path) -> Path:
    """Write a prompt into a user's folder as its next version, unless its text is there; return its file."""
    make_private_folder(folder)
    there = [load(name, root=folder) for name in names(folder) if name.startswith(f"{prompt.name}/")]
    known = [one.version for one in there if one.text == prompt.text]
    version = known[0] if known else 1 + max(one.version for one in (latest(prompt.name), *there))
    file = folder / prompt.name / f"v{version}.md"
    if not known:
        replace_private(file, write_prompt(prompt).encode())
    return file


def write_prompt(prompt: Prompt) -> str:
    return f"---\npurpose: {prompt.purpose}\n---\n{prompt.text}\n"

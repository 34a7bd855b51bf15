"""Find, read, render and hash the prompt files. What the prompts say is in `prompts/`, and nowhere else.

A file is front matter (`key: value` lines between two lines `---`), then the text with `{{placeholders}}`.
Its hash is part of every summary's recipe: a changed text means that summaries are made again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from summarizing_context.errors import PromptError

_NAME = re.compile(r"([a-z][a-z0-9_]*)/v([1-9][0-9]{0,5})")

_PLACEHOLDER = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")

_REQUIRED = ("name", "version", "purpose", "placeholders")

_FOCUS = "focus"  # `focus_1`, `focus_2`, … in the front matter: what a rollup of that rank keeps


@dataclass(frozen=True, slots=True)
class Prompt:
    """One version of one prompt. `focuses` has a text for each rank from 1; the last one serves all higher ranks."""

    name: str
    version: int
    purpose: str
    text: str
    focuses: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """SHA-256, hex, of everything that can reach a model."""
        return hashlib.sha256("\0".join((self.text, *self.focuses)).encode()).hexdigest()

    @property
    def placeholders(self) -> frozenset[str]:
        """What `render` has to be given."""
        return frozenset(_PLACEHOLDER.findall(self.text))

    def render(self, **values: str | int) -> str:
        """The text with every placeholder filled in, once: what a value contains is left as it is."""
        missing, unknown = self.placeholders - values.keys(), values.keys() - self.placeholders
        if missing or unknown:
            told = (("no value for", missing), ("no place for", unknown))
            problems = " and ".join(f"{what} {_listed(names)}" for what, names in told if names)
            raise PromptError(f"prompt {self.name}/v{self.version} has {problems}")
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), self.text)

    def render_for_rank(self, rank: int, **values: str | int) -> str:
        """The text for a summary of this rank; a prompt without focuses is the same for all ranks."""
        if not self.focuses:
            return self.render(**values)
        focus = self.focuses[min(max(rank, 1), len(self.focuses)) - 1]
        return self.render(**values, focus=focus)


def prompts_root() -> Traversable:
    """The prompt folder: inside the installed package, or beside it in a checkout."""
    installed = files("summarizing_context") / "prompts"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "prompts"


def names(root: Traversable | None = None) -> list[str]:
    """All prompts of a folder, such as `segment/v1`, by purpose and version."""
    folders = [folder for folder in (root or prompts_root()).iterdir() if folder.is_dir()]
    found = [f"{folder.name}/{file.name.removesuffix('.md')}" for folder in folders for file in folder.iterdir()
             if file.name.endswith(".md")]  # fmt: skip
    matched = [match for name in found if (match := _NAME.fullmatch(name))]
    return [match[0] for match in sorted(matched, key=lambda match: (match[1], int(match[2])))]


def load(name: str, *, root: Traversable | None = None) -> Prompt:
    """One version of a prompt, such as `segment/v1`."""
    if not isinstance(name, str) or not (matched := _NAME.fullmatch(name)):
        raise PromptError(f"{name!r} is not the name of a prompt; write it like segment/v1")
    folder, version = matched[1], int(matched[2])
    file = (root or prompts_root()) / folder / f"v{version}.md"
    try:
        content = file.read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError) as error:
        raise PromptError(f"prompt {name} cannot be read from {file}: {error}") from error
    facts, text = _split(content, name)
    if (facts["name"], facts["version"]) != (folder, str(version)):
        raise PromptError(f"prompt {name}: its front matter says {facts['name']}/v{facts['version']}")
    prompt = Prompt(folder, version, facts["purpose"], text, _focuses(facts))
    _check_placeholders(prompt, facts)
    return prompt


def latest(purpose: str, *, root: Traversable | None = None) -> Prompt:
    """The newest version of a prompt, such as `segment`. The shipped ones are read once a process."""
    return _latest_shipped(purpose) if root is None and isinstance(purpose, str) else _latest(purpose, root)


@cache
def _latest_shipped(purpose: str) -> Prompt:
    return _latest(purpose, None)


def _latest(purpose: str, root: Traversable | None) -> Prompt:
    versions = [name for name in names(root) if name.startswith(f"{purpose}/")]
    if not versions and root is not None:
        raise PromptError(f"there is no version of the prompt {purpose!r} in {root}; the first is {purpose}/v1.md")
    if not versions:
        raise PromptError(f"there is no prompt {purpose!r}; `summarizing-context prompts list` names those there are")
    return load(versions[-1], root=root)


def in_use(purpose: str, folder: str | Path | None) -> Prompt:
    """The newest version of a prompt in a user's folder, else the newest that is shipped."""
    if folder is None:
        return latest(purpose)
    root = Path(folder)
    if not root.is_dir():
        raise PromptError(f"prompts: {folder} is not a folder; name one that holds files such as segment/v1.md")
    return latest(purpose, root=root if (root / purpose).is_dir() else None)


def write_prompt(prompt: Prompt) -> str:
    """A prompt as its file holds it."""
    focuses = [f"{_FOCUS}_{rank}: {text}" for rank, text in enumerate(prompt.focuses, start=1)]
    placeholders = ", ".join(sorted(prompt.placeholders))
    facts = [f"name: {prompt.name}", f"version: {prompt.version}", f"purpose: {prompt.purpose}"]
    return "\n".join(["---", *facts, f"placeholders: {placeholders}", *focuses, "---", prompt.text, ""])


def _split(content: str, name: str) -> tuple[dict[str, str], str]:
    """Front matter and text of a prompt file."""
    opening, found, rest = content.partition("---\n")
    front, closed, text = rest.partition("\n---\n")
    if opening or not found or not closed or not text.strip():
        raise PromptError(f"prompt {name}: a file is front matter between two lines `---`, then its text")
    facts: dict[str, str] = {}
    for line in front.splitlines():
        key, colon, value = line.partition(":")
        if not colon or not value.strip() or key in facts or not _is_key(key):
            raise PromptError(
                f"prompt {name}: {line[:60]!r} is not a `key: value` line of the front matter, or repeats a key"
            )
        facts[key] = value.strip()
    if missing := set(_REQUIRED) - facts.keys():
        raise PromptError(f"prompt {name}: the front matter lacks {_listed(missing)}")
    return facts, text.strip()


def _is_key(key: str) -> bool:
    return key in _REQUIRED or re.fullmatch(rf"{_FOCUS}_[1-9]", key) is not None


def _focuses(facts: Mapping[str, str]) -> tuple[str, ...]:
    keys = sorted(key for key in facts if key.startswith(f"{_FOCUS}_"))
    if keys != [f"{_FOCUS}_{rank}" for rank in range(1, len(keys) + 1)]:
        raise PromptError(f"prompt {facts['name']}/v{facts['version']}: focuses are numbered from 1 without a gap")
    return tuple(facts[key] for key in keys)


def _check_placeholders(prompt: Prompt, facts: Mapping[str, str]) -> None:
    declared = {name.strip() for name in facts["placeholders"].split(",")}
    if declared != prompt.placeholders or (_FOCUS in declared) != bool(prompt.focuses):
        raise PromptError(
            f"prompt {prompt.name}/v{prompt.version} declares {_listed(declared)} but its text has "
            f"{_listed(prompt.placeholders)} and its front matter {len(prompt.focuses)} focuses"
        )


def _listed(names: set[str] | frozenset[str]) -> str:
    return ", ".join(sorted(names))

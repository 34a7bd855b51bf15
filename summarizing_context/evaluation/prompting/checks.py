"""What is wrong with the prompts of a folder: form, length of the fixed text, sections, names.

Pure but for reading the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources.abc import Traversable
from typing import NamedTuple

from summarizing_context.errors import PromptError
from summarizing_context.prompt_library import Prompt, load, names, prompts_root, released
from summarizing_context.summarizers.sections import NAMES

MOST_TOKENS = 400  # of the fixed text, as sent
CAP = 400  # what stands for `max_tokens` when the fixed text is counted
SUMMARIES = ("segment", "rollup")  # their replies have the fixed sections
_GIVEN = {"segment": {"max_tokens"}, "rollup": {"max_tokens", "focus"}, "focus": {"max_tokens"},
    "reader": {"max_tokens"}, "proposal": {"current", "feedback"},
    "judge": {"verdict_right", "verdict_wrong"}}  # fmt: skip


class Complaint(NamedTuple):
    """Something wrong with one prompt, or with a file beside the prompts."""

    name: str
    words: str


def fixed_text(prompt: Prompt) -> str:
    """What is sent with every request, whatever it is about; of several ranks the longest text."""
    values = {name: CAP if name == "max_tokens" else "" for name in prompt.placeholders if name != "focus"}
    ranks = range(1, max(len(prompt.focuses), 1) + 1)
    return max((prompt.render_for_rank(rank, **values) for rank in ranks), key=len)


def check_prompts(root: Traversable, count: Callable[[str], int]) -> list[Complaint]:
    """All that is wrong in a folder of prompts. `count` counts the tokens of a text."""
    complaints = list(_strays(root))
    for name in names(root):
        try:
            prompt = load(name, root=root)
        except PromptError as error:
            complaints.append(Complaint(name, str(error).removeprefix(f"prompt {name}: ")))
        else:
            complaints += [Complaint(name, words) for words in check_prompt(prompt, count)]
    return complaints


def check_prompt(prompt: Prompt, count: Callable[[str], int]) -> Iterator[str]:
    """What is wrong with one prompt that could be read."""
    accepted = released().get(name := f"{prompt.name}/v{prompt.version}")
    if accepted not in (None, prompt.hash):
        yield f"{name} was released with another text; a new text needs a version of its own"
    tokens = count(fixed_text(prompt))
    if tokens > MOST_TOKENS:
        yield f"its fixed text costs {tokens} tokens with every request; at most {MOST_TOKENS} are allowed"
    if prompt.name in SUMMARIES:
        yield from _sections(prompt)
    if strange := prompt.placeholders - _GIVEN.get(prompt.name, prompt.placeholders):
        yield f"nothing fills in {', '.join(sorted(strange))}; {prompt.name} prompts are given " + ", ".join(
            sorted(_GIVEN[prompt.name])
        )


def _sections(prompt: Prompt) -> Iterator[str]:
    wanted = [f"## {name}" for name in NAMES]
    found = [line.strip() for line in prompt.text.splitlines() if line.startswith("## ")]
    if found != wanted:
        lacking = [name for name in wanted if name not in found]
        odd = [name for name in found if name not in wanted]
        told = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"has {', '.join(odd)} besides"] * bool(odd)
        yield f"its sections must be the fixed ones, in their order: it {' and '.join(told) or 'has another order'}"


def _strays(root: Traversable) -> Iterator[Complaint]:
    """Files that nothing would read, and folders that nothing asks for."""
    known, purposes = set(names(root)), {folder.name for folder in prompts_root().iterdir() if folder.is_dir()}
    for folder in sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name):
        if folder.name.startswith("."):
            continue
        if folder.name not in purposes:
            yield Complaint(folder.name, f"nothing asks for prompts of this purpose; known are {_listed(purposes)}")
        for file in sorted(entry.name for entry in folder.iterdir()):
            if not file.startswith(".") and f"{folder.name}/{file.removesuffix('.md')}" not in known:
                yield Complaint(f"{folder.name}/{file}", "is no prompt: a file's name reads like v1.md")


def _listed(words: set[str]) -> str:
    return ", ".join(sorted(words))

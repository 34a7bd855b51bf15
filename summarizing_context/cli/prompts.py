"""`summarizing-context prompts`: list and show prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
import typer

from summarizing_context.cli import options
from summarizing_context.cli.options import PromptsPath, argument, command
from summarizing_context.cli.output import InputError, Result, dim, plain, table
from summarizing_context.messages.tokens import TokenCounter, choose_counter
from summarizing_context.summarizers.prompts import Prompt, latest, load, names, prompts_root

commands = typer.Typer()
family = options.family(commands, "prompts", options.TRANSCRIPTS, "Show prompts, and what they cost.")


@command(family, name="list")
def list_prompts(prompts: PromptsPath = None) -> Result:
    """List all prompts with the tokens that their fixed text costs in every request."""
    root, counter = _root(prompts), anyio.run(choose_counter, "auto")
    found = [_described(load(name, root=root), counter) for name in names(root)]
    rows = [{**one, "hash": one["hash"][:12], "about": dim(one["about"])} for one in found]
    columns = {"purpose": "purpose", "#version": "version", "#tokens": "fixed_tokens", "hash": "hash", "about": "about"}
    shown = table("Prompts", columns, rows, wide="about")
    shown.caption = f"tokens of the fixed text, counted by {counter.name}"
    return Result({"token_counter": counter.name, "prompts": found}, [shown])


@command(family)
def show(
    name: Annotated[str, argument("NAME", "segment/v3, or segment for the newest version.")],
    prompts: PromptsPath = None,
) -> Result:
    """Show the whole text of one prompt; what it is for and costs goes to standard error.

    Examples:
        prompts show segment > mine.md
    """
    counter, known = anyio.run(choose_counter, "auto"), list[str]()
    for root in (_root(prompts), prompts_root()):  # the user's folder goes before what is shipped
        known = names(root)
        if name in known or any(one.startswith(f"{name}/") for one in known):
            prompt = load(name, root=root) if name in known else latest(name, root=root)
            about = _described(prompt, counter)
            told = [plain(f"{about['name']}: {about['about']} {about['fixed_tokens']} tokens by {counter.name}.")]
            whole = {"placeholders": sorted(prompt.placeholders), "text": prompt.text}
            return Result({**about, "token_counter": counter.name, **whole}, [prompt.text], remarks=told)
    raise InputError(f"there is no prompt {plain(name, 40)!r}; there are {', '.join(known)}")


def _described(prompt: Prompt, counter: TokenCounter) -> dict[str, Any]:
    """Return what there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.tune import fixed_text

    known = {"name": f"{prompt.name}/v{prompt.version}", "purpose": prompt.name, "version": prompt.version}
    return {**known, "about": prompt.purpose, "fixed_tokens": counter.count(fixed_text(prompt)), "hash": prompt.hash}


def _root(folder: Path | None) -> Any:
    """Return the user's folder of prompts, or that of the shipped ones. Raise `InputError`."""
    if folder is not None and not (folder.is_dir() and names(folder)):
        raise InputError(f"--prompts: {folder} is not a folder that holds a prompt, such as segment/v1.md")
    return folder or prompts_root()

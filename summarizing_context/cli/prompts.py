"""`summarizing-context prompts`: list, show, render and check prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from summarizing_context.cli import options
from summarizing_context.cli.options import PromptsPath, argument, between, command, option
from summarizing_context.cli.output import InputError, Result, Status, dim, plain, records, table, told_lines
from summarizing_context.messages.tokens import TokenCounter, choose_counter
from summarizing_context.settings import Settings
from summarizing_context.summarizers.prompts import Prompt, latest, load, names, prompts_root
from summarizing_context.transcripts import find_transcripts, read_session

_Name = Annotated[str, argument("NAME", "segment/v2, or segment for the newest version.")]
_ABOUT = """Show and check prompts.

Examples:
    prompts render segment run.jsonl
    prompts check --prompts my-prompts/
"""
commands = typer.Typer()
family = options.family(commands, "prompts", options.TRANSCRIPTS, _ABOUT)


@command(family, name="list")
def list_prompts(prompts: PromptsPath = None) -> Result:
    """List all prompts with the tokens that their fixed text costs in every request."""
    root, counter = _root(prompts), anyio.run(choose_counter, "auto")
    found = [_described(load(name, root=root), counter) for name in names(root)]
    rows = [{**one, "hash": one["hash"][:12], "about": dim(one["about"])} for one in found]
    columns = {"purpose": "purpose", "#version": "version", "#tokens": "fixed_tokens", "hash": "hash", "about": "about"}
    shown = records("Prompts", rows, columns, wide="about")
    shown.caption = f"tokens of the fixed text, counted by {counter.name}"
    return Result({"token_counter": counter.name, "prompts": found}, [shown])


@command(family)
def show(name: _Name, prompts: PromptsPath = None) -> Result:
    """Show the whole text of one prompt; what it is for and costs goes to standard error.

    Examples:
        prompts show segment > mine.md
    """
    prompt, counter = _find(name, prompts), anyio.run(choose_counter, "auto")
    about = _described(prompt, counter)
    told = [plain(f"{about['name']}: {about['about']} {about['fixed_tokens']} tokens by {counter.name}.")]
    told += [plain(f"rank {rank}: {focus}") for rank, focus in enumerate(prompt.focuses, start=1)]
    whole = {"placeholders": sorted(prompt.placeholders), "focuses": list(prompt.focuses), "text": prompt.text}
    return Result({**about, "token_counter": counter.name, **whole}, [prompt.text], remarks=told)


@command(family)
def render(
    name: _Name,
    transcript: Annotated[Path, argument("TRANSCRIPT", "One of any known format.", parser=options.read_path)],
    format: options.TranscriptFormat = "auto",
    number: Annotated[int, option("N", "Number of the segment or rollup.")] = 1,
    rank: Annotated[int, option("R", "Rank in the tree, for rollups.", parser=between(1, 100))] = 1,
    prompts: PromptsPath = None,
) -> Result:
    """Show the exact request that a prompt is sent with for a real segment, and what each part costs.

    Nothing is sent. Messages are cut into segments as a session would cut them.
    """
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES, jobs_for, render_request

    prompt, counter = _find(name, prompts), anyio.run(choose_counter, "auto")
    if prompt.name not in SUMMARIES:
        raise InputError(f"{prompt.name} is not sent with parts of a session; those are {', '.join(SUMMARIES)}")
    files = find_transcripts([transcript])
    if len(files) > 1:
        raise InputError(f"{transcript} holds {len(files)} transcripts; name one of them")
    found = read_session(files[0], format=format)
    settings = Settings.load(store=":memory:", summarizer="extractive")
    jobs = anyio.run(lambda: jobs_for(list(found.messages), settings, purpose=prompt.name, rank=rank))
    rendered: dict[str, Any] = render_request(prompt, jobs, number, counter.count)
    parts = rendered["parts"]
    where = f"messages {rendered['start']}–{rendered['stop'] - 1}, number {number} of {rendered['among']}"
    rows = [(one["slot"], one["name"], "yes" if one["fixed"] else "no", one["tokens"]) for one in parts]
    made = table(f"{rendered['prompt']} for {where}", "slot", "part", "same every time", "#tokens", rows=rows)
    made.caption = (
        f"{rendered['tokens']:,} tokens by {counter.name}, {rendered['fixed_tokens']:,} of them the same every time; "
        f"the answer may have {rendered['max_tokens']:,}"
    )
    shown: list[Any] = [made]
    for slot in ("system", "user"):
        shown += [Text(f"── {slot}", style="bold"), "".join(part["text"] for part in parts if part["slot"] == slot)]
    return Result({**rendered, "token_counter": counter.name}, shown, remarks=told_lines(found.unreadable))


@command(family)
def check(prompts: PromptsPath = None) -> Result:
    """Check form, length, sections and names of all prompts. Exit status 1 if anything is wrong."""
    from summarizing_context.evaluation.prompt_inspection import check_prompts

    root, counter = _root(prompts), anyio.run(choose_counter, "auto")
    complaints, checked = check_prompts(root, counter.count), names(root)
    lines = [f"{plain(one['name'])}: {plain(one['words'])}" for one in complaints]
    lines.append(f"{len(checked)} prompts, {len(complaints)} complaints (tokens by {counter.name})")
    document = {"prompts": checked, "complaints": complaints, "token_counter": counter.name}
    return Result(document, lines, Status.LAW_BROKEN if complaints else Status.OK)


def _described(prompt: Prompt, counter: TokenCounter) -> dict[str, Any]:
    """Return what there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.prompt_inspection import fixed_text

    name, tokens = f"{prompt.name}/v{prompt.version}", counter.count(fixed_text(prompt))
    known = {"name": name, "purpose": prompt.name, "version": prompt.version, "about": prompt.purpose}
    return {**known, "fixed_tokens": tokens, "hash": prompt.hash}


def _find(name: str, folder: Path | None) -> Prompt:
    """Return a prompt of the user's folder, else a shipped one."""
    known: list[str] = []
    for root in [_root(folder), None] if folder is not None else [None]:
        known = names(root)
        if name in known:
            return load(name, root=root)
        if any(one.startswith(f"{name}/") for one in known):
            return latest(name, root=root)
    raise InputError(f"there is no prompt {plain(name, 40)!r}; there are {', '.join(known)}")


def _root(folder: Path | None) -> Any:
    """Return the user's folder of prompts, or that of the shipped ones. Raise `InputError`."""
    if folder is None:
        return prompts_root()
    if not (folder.is_dir() and names(folder)):
        raise InputError(f"--prompts: {folder} is not a folder that holds a prompt, such as segment/v1.md")
    return folder

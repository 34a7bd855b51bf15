"""`summarizing-context prompts`: list, show, compare, render and check prompts."""

from __future__ import annotations

from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from summarizing_context.cli import options
from summarizing_context.cli.options import PromptsPath, argument, command, flag, option, path_option
from summarizing_context.cli.output import InputError, Result, Status
from summarizing_context.cli.sessions import find_session
from summarizing_context.cli.tables import dim, plain, table, told_lines
from summarizing_context.messages.tokens import TokenCounter, choose_counter
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prompts import Prompt, latest, load, names, prompts_root
from summarizing_context.transcripts import find_transcripts, read_session

_Name = Annotated[str, argument("NAME", "segment/v2, or segment for the newest version.")]
_ABOUT = """Show, compare and check prompts.

Examples:
    prompts list
    prompts diff segment --prompts my-prompts/    # your newest version against the shipped one
    prompts render segment run.jsonl    # the request for a real segment, part by part
    prompts check --prompts my-prompts/
"""
commands = typer.Typer()
family = options.family(commands, "prompts", options.MEASURE, _ABOUT)


@command(family, name="list")
def list_prompts(prompts: PromptsPath = None) -> Result:
    """List all prompts with the tokens that their fixed text costs in every request."""
    root, counter = _root(prompts), _counter()
    found = [_described(load(name, root=root), counter) for name in names(root)]
    rows = [
        (one["purpose"], str(one["version"]), one["fixed_tokens"], one["hash"][:12], dim(one["about"])) for one in found
    ]
    shown = table("Prompts", "purpose", "#version", "#tokens", "hash", "about", rows=rows, wide="about")
    shown.caption = f"tokens of the fixed text, counted by {counter.name}"
    return Result({"token_counter": counter.name, "prompts": found}, [shown])


@command(family)
def show(name: _Name, prompts: PromptsPath = None) -> Result:
    """Show one prompt: what it is for, what it costs, and its whole text."""
    prompt, counter = _find(name, prompts), _counter()
    about, focuses = _described(prompt, counter), list(prompt.focuses)
    heading = Text(f"{about['name']}: {plain(about['about'])}", style="bold")
    costs = dim(f"{about['fixed_tokens']} tokens by {counter.name}, hash {about['hash']}")
    ranks = (dim(f"rank {rank}: {focus}") for rank, focus in enumerate(focuses, start=1))
    whole = {"placeholders": sorted(prompt.placeholders), "focuses": focuses, "text": prompt.text}
    return Result({**about, "token_counter": counter.name, **whole}, [heading, costs, *ranks, "", prompt.text])


@command(family)
def diff(
    first: _Name,
    second: Annotated[str | None, argument("[OTHER]", "What to compare it with.")] = None,
    prompts: PromptsPath = None,
) -> Result:
    """Compare two prompts; of one name alone, the shipped version with the one in your folder."""
    from summarizing_context.evaluation.prompt_inspection import compare_prompts

    if second is None and prompts is None:
        raise InputError("name another prompt to compare it with, or the folder of yours with --prompts")
    old = _find(first, prompts) if second is not None else _find(first.partition("/")[0], None)
    new, counter = _find(first if second is None else second, prompts), _counter()
    changes, before, after = compare_prompts(old, new), _described(old, counter), _described(new, counter)
    tokens = f"{before['fixed_tokens']} → {after['fixed_tokens']} tokens"
    heading = Text(f"{before['name']} → {after['name']}   {tokens}", style="bold")
    styles = {"-": "red", "+": "green", " ": "", "…": "dim"}
    lines = [Text(f"{sign} {text}", style=styles[sign]) for sign, text in changes]
    document = {"first": before, "second": after, "changes": changes, "token_counter": counter.name}
    return Result(document, [heading, *(lines or [Text("They say the same.")])])


@command(family)
def render(
    name: _Name,
    transcript: Annotated[
        Path | None, argument("[TRANSCRIPT]", "A .jsonl or .jsonl.gz file of messages.", parser=options.read_path)
    ] = None,
    format: options.TranscriptFormat = "auto",
    session: Annotated[str | None, option("ID", "Use a stored session instead, with --store.")] = None,
    store: Annotated[
        Path | None, path_option("FILE", "Store of the session.", envvar="SUMMARIZING_CONTEXT_STORE")
    ] = None,
    number: Annotated[int, option("N", "Number of the segment or rollup, from 1.")] = 1,
    rank: Annotated[int, option("R", "Rank in the tree, for rollups.", min=1)] = 1,
    full: Annotated[bool, flag("--full", "Print the whole record, not only its beginning and end.")] = False,
    prompts: PromptsPath = None,
) -> Result:
    """Show the exact request that a prompt is sent with for a real segment, and what each part costs.

    Nothing is sent. Messages are cut into segments as a session would cut them.
    """
    from summarizing_context.assembly import open_context
    from summarizing_context.evaluation.prompt_inspection import SUMMARIES, jobs_for, render_request

    prompt, counter, messages = _find(name, prompts), _counter(), []
    if prompt.name not in SUMMARIES:
        raise InputError(f"{prompt.name} is not sent with parts of a session; those are {', '.join(SUMMARIES)}")
    if (transcript is None) == (session is None):
        raise InputError("name what to render for: a transcript, or --session with --store")
    skipped: list[str] = []
    if transcript is not None:
        files = find_transcripts([transcript])
        if len(files) > 1:
            raise InputError(f"{transcript} holds {len(files)} transcripts; name one of them")
        found = read_session(files[0], format=format)
        messages, skipped = list(found.messages), list(found.unreadable)
    elif store is None:
        raise InputError("--session: say with --store where it is stored")
    else:
        stored = Settings.load(store=store, session_id=find_session(store, session or "").session_id)

        async def stored_messages() -> list[dict[str, Any]]:
            async with open_context(stored, read_only=True) as context:
                return await context.get_messages()

        messages = anyio.run(stored_messages)
    settings = Settings.load(store=":memory:", summarizer="extractive")
    jobs = anyio.run(partial(jobs_for, messages, settings, purpose=prompt.name, rank=rank))
    rendered = render_request(prompt, jobs, number, counter.count)
    parts = rendered["parts"]
    where = f"messages {rendered['start']}–{rendered['stop'] - 1}, number {number} of {rendered['among']}"
    rows = [(one["slot"], one["name"], "yes" if one["fixed"] else "no", one["tokens"]) for one in parts]
    made = table(f"{rendered['prompt']} for {where}", "slot", "part", "same every time", "#tokens", rows=rows)
    made.caption = (
        f"{rendered['tokens']:,} tokens by {counter.name}, {rendered['fixed_tokens']:,} of them the same every time; "
        f"the answer may have {rendered['max_tokens']:,}"
    )
    system, user = ("".join(part["text"] for part in parts if part["slot"] == slot) for slot in ("system", "user"))
    lines = user.split("\n")
    if not full and len(lines) > 17:  # eight at either end
        user = "\n".join([*lines[:8], f"… {len(lines) - 16:,} lines more; --full prints them", *lines[-8:]])
    headings = (Text(f"── {slot}", style="bold") for slot in ("system", "user"))
    document = {**rendered, "token_counter": counter.name}
    return Result(document, [made, next(headings), system, next(headings), user], remarks=told_lines(skipped))


@command(family)
def check(prompts: PromptsPath = None) -> Result:
    """Check form, length, sections and names of all prompts. Exit status 1 if anything is wrong."""
    from summarizing_context.evaluation.prompt_inspection import check_prompts

    root, counter = _root(prompts), _counter()
    complaints, checked = check_prompts(root, counter.count), names(root)
    lines = [f"{plain(complaint['name'])}: {plain(complaint['words'])}" for complaint in complaints]
    lines.append(f"{len(checked)} prompts, {len(complaints)} complaints (tokens by {counter.name})")
    document = {"prompts": checked, "complaints": complaints, "token_counter": counter.name}
    return Result(document, lines, Status.LAW_BROKEN if complaints else Status.OK)


def _described(prompt: Prompt, counter: TokenCounter) -> dict[str, Any]:
    """Return what there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.prompt_inspection import fixed_text

    return {
        "name": f"{prompt.name}/v{prompt.version}",
        "purpose": prompt.name,
        "version": prompt.version,
        "about": prompt.purpose,
        "fixed_tokens": counter.count(fixed_text(prompt)),
        "hash": prompt.hash,
    }


def _find(name: str, folder: Path | None) -> Prompt:
    """Return a prompt of the user's folder, else a shipped one; an error names the nearest if there is none."""
    everything: list[str] = []
    for root in [_root(folder), None] if folder is not None else [None]:
        known = names(root)
        if name in known:
            return load(name, root=root)
        if any(one.startswith(f"{name}/") for one in known):
            return latest(name, root=root)
        everything += known
    near = get_close_matches(name, everything, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(everything)}"
    raise InputError(f"there is no prompt {plain(name, 40)!r}; {hint}")


def _root(folder: Path | None) -> Any:

    if folder is None:
        return prompts_root()
    if not (folder.is_dir() and names(folder)):
        raise InputError(f"--prompts: {folder} is not a folder that holds a prompt, such as segment/v1.md")
    return folder


def _counter() -> TokenCounter:

    return anyio.run(choose_counter, "auto")

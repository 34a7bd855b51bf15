"""`summarizing-context prompts`: list, show and render prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from rich.text import Text

from summarizing_context.cli import options
from summarizing_context.cli.options import PromptsPath, argument, between, command, option
from summarizing_context.cli.output import InputError, Result, dim, plain, records, told_lines
from summarizing_context.messages.tokens import TokenCounter, choose_counter
from summarizing_context.settings import Settings, without_default_cap
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.prompts import Prompt, latest, load, names, prompts_root
from summarizing_context.summarizers.sdk import fenced
from summarizing_context.transcripts import read_session

_Name = Annotated[str, argument("NAME", "segment/v3, or segment for the newest version.")]
_ABOUT = """Show prompts, and the requests that they are sent with.

Examples:
    prompts render segment run.jsonl
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
    whole = {"placeholders": sorted(prompt.placeholders), "text": prompt.text}
    return Result({**about, "token_counter": counter.name, **whole}, [prompt.text], remarks=told)


@command(family)
def render(
    name: _Name,
    transcript: Annotated[Path, argument("TRANSCRIPT", "One of any known format.", parser=options.read_path)],
    format: options.TranscriptFormat = "auto",
    number: Annotated[int, option("N", "Number of the segment or rollup.", parser=between(1))] = 1,
    prompts: PromptsPath = None,
) -> Result:
    """Show the exact request that a prompt is sent with for a real segment or rollup.

    Nothing is sent. Messages are cut into segments as a session would cut them.
    """
    from summarizing_context.evaluation.tune import SUMMARIES

    prompt, counter = _find(name, prompts), anyio.run(choose_counter, "auto")
    if prompt.name not in SUMMARIES:
        raise InputError(f"{prompt.name} is not sent with parts of a session; those are {', '.join(SUMMARIES)}")
    found = read_session(transcript, format=format)
    settings = Settings.load(store=":memory:", summarizer="extractive")
    jobs = anyio.run(_jobs_for, list(found.messages), settings, prompt.name)
    if number > len(jobs):
        few = "the session is too short for one" if not jobs else f"there are {len(jobs)}; give --number up to that"
        raise InputError(f"number {number} of {prompt.name}: {few}, or take another log")
    job = jobs[number - 1]
    about = {name: getattr(job, name) for name in ("rank", "start", "stop", "max_tokens")}
    slots = {"system": prompt.render(max_tokens=job.max_tokens), "user": fenced(job)}
    tokens = {slot: counter.count(text) for slot, text in slots.items()}
    where = f"messages {job.start}–{job.stop - 1}, number {number} of {len(jobs)}"
    shown: list[Any] = [f"{prompt.name}/v{prompt.version} for {where}"]
    for slot, text in slots.items():
        shown += [Text(f"── {slot}, {tokens[slot]:,} tokens by {counter.name}", style="bold"), text]
    document = {"prompt": f"{prompt.name}/v{prompt.version}", **about, "number": number, "among": len(jobs), **slots}
    document |= {"tokens": tokens, "token_counter": counter.name}
    return Result(document, shown, remarks=told_lines(found.unreadable))


async def _jobs_for(messages: Sequence[dict[str, Any]], settings: Settings, purpose: str) -> list[SummaryJob]:
    """Return the jobs of one purpose that a session with these messages asks for, oldest first."""
    from summarizing_context.assembly import open_context
    from summarizing_context.summarizers.extractive.summarizer import summarize_extractively

    jobs: list[SummaryJob] = []

    class Noting:
        async def summarize(self, job: SummaryJob) -> str:
            if job.kind in ("rules", "memory"):
                return "none"
            if job.kind == purpose:
                jobs.append(job)
            return summarize_extractively(job.content, kind=job.kind, max_tokens=job.max_tokens)

    fixed: Any = {"store": ":memory:", "session_id": "render", "start_at": 0.0, "idle_after": "never"}
    async with open_context(replace(without_default_cap(settings), **fixed), summarizer=Noting()) as context:
        await context.set_messages(list(messages))
        await context.wait_idle()
    return sorted(jobs, key=lambda job: (job.rank, job.start))


def _described(prompt: Prompt, counter: TokenCounter) -> dict[str, Any]:
    """Return what there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.tune import fixed_text

    known = {"name": f"{prompt.name}/v{prompt.version}", "purpose": prompt.name, "version": prompt.version}
    return {**known, "about": prompt.purpose, "fixed_tokens": counter.count(fixed_text(prompt)), "hash": prompt.hash}


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
    if folder is not None and not (folder.is_dir() and names(folder)):
        raise InputError(f"--prompts: {folder} is not a folder that holds a prompt, such as segment/v1.md")
    return folder or prompts_root()

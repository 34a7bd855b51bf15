"""Checks of prompts, and the requests that a prompt is sent with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.resources.abc import Traversable
from typing import Any

from summarizing_context.assembly import open_context
from summarizing_context.errors import PromptError, SettingsError
from summarizing_context.settings import Settings, without_default_cap
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.extractive.sections import CONSTRAINTS, NAMES
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.prompts import Prompt, load, names, prompts_root
from summarizing_context.summarizers.sdk import fenced

SUMMARIES = ("segment", "rollup")  # their replies have the fixed sections

_CAP = 450  # tokens of the fixed text, as sent; and what stands for `max_tokens` when it is counted
_CAP_OF_RULES = 600  # tokens; sent with a few short requests alone


def fixed_text(prompt: Prompt) -> str:
    """Return what is sent with every request, whatever it is about; of several ranks the longest text."""
    values = {name: _CAP if name == "max_tokens" else "" for name in prompt.placeholders if name != "focus"}
    ranks = range(1, max(len(prompt.focuses), 1) + 1)
    return max((prompt.render_for_rank(rank, **values) for rank in ranks), key=len)


def check_prompts(root: Traversable, count: Callable[[str], int]) -> list[dict[str, str]]:
    """Return all that is wrong in a folder of prompts, as `name` of a prompt or file and `words`."""
    complaints: list[tuple[str, str]] = []
    # Files that nothing would read, and folders that nothing asks for.
    known, purposes = set(names(root)), {folder.name for folder in prompts_root().iterdir() if folder.is_dir()}
    for folder in sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name):
        if folder.name.startswith("."):
            continue
        if folder.name not in purposes:
            listed = ", ".join(sorted(purposes))
            complaints.append((folder.name, f"nothing asks for prompts of this purpose; known are {listed}"))
        complaints += [
            (f"{folder.name}/{file}", "is not a prompt: name the file like v1.md")
            for file in sorted(entry.name for entry in folder.iterdir())
            if not file.startswith(".") and f"{folder.name}/{file.removesuffix('.md')}" not in known
        ]
    for name in names(root):
        try:
            complaints += [(name, words) for words in check_prompt(load(name, root=root), count)]
        except PromptError as error:
            complaints.append((name, str(error).removeprefix(f"prompt {name}: ")))
    return [{"name": name, "words": words} for name, words in complaints]


def check_prompt(prompt: Prompt, count: Callable[[str], int]) -> Iterator[str]:
    """Yield what is wrong with one prompt that could be read."""
    tokens, most = count(fixed_text(prompt)), _CAP_OF_RULES if prompt.name == "rules" else _CAP
    if tokens > most:
        yield f"its fixed text costs {tokens} tokens with every request; at most {most} are allowed"
    if prompt.name in SUMMARIES:
        found = [line.strip() for line in prompt.text.splitlines() if line.startswith("## ")]
        # Rules may be asked for by the prompt `rules` alone.
        wanted = [f"## {name}" for name in NAMES if name != NAMES[CONSTRAINTS] or f"## {name}" in found]
        if found != wanted:
            lacking, extra = [one for one in wanted if one not in found], [one for one in found if one not in wanted]
            faults = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"has {', '.join(extra)} besides"] * bool(extra)
            about = " and ".join(faults) or "has another order"
            yield f"its sections must be the fixed ones, in their order: it {about}"
    shipped = [name for name in names() if name.startswith(f"{prompt.name}/")]
    given = load(shipped[-1]).placeholders if shipped else prompt.placeholders
    if prompt.name == "rollup":
        given |= {"focus"}
    if "max_tokens" in given - prompt.placeholders:
        yield "it lacks the placeholder {{max_tokens}}, the longest summary"
    if unknown := prompt.placeholders - given:
        known = ", ".join(sorted(given))
        yield f"nothing fills in {', '.join(sorted(unknown))}; {prompt.name} prompts are given {known}"


async def jobs_for(
    messages: Sequence[dict[str, Any]], settings: Settings, *, purpose: str, rank: int = 1
) -> list[SummaryJob]:
    """Return the jobs of one purpose that a session with these messages asks for, oldest first."""
    jobs: list[SummaryJob] = []

    class Noting:
        async def summarize(self, job: SummaryJob) -> str:
            if job.kind in ("rules", "memory"):
                return "none"
            if job.kind == purpose and job.rank in (0, rank):
                jobs.append(job)
            return summarize_extractively(job.content, kind=job.kind, max_tokens=job.max_tokens)

    fixed: Any = {"store": ":memory:", "session_id": "render", "start_at": 0.0, "idle_after": "never"}
    async with open_context(replace(without_default_cap(settings), **fixed), summarizer=Noting()) as context:
        await context.set_messages(list(messages))
        await context.wait_idle()
    return sorted(jobs, key=lambda job: job.start)


def render_request(
    prompt: Prompt, jobs: Sequence[SummaryJob], number: int, count: Callable[[str], int]
) -> dict[str, Any]:
    """Return the request for one of the jobs, `number` from 1, with another prompt's instructions: its parts exactly as
    they are sent, what each costs, and whether it is the same with every request."""
    if not jobs:
        raise SettingsError(f"these messages ask for no {prompt.name}; take a longer transcript")
    if not 1 <= number <= len(jobs):
        raise SettingsError(f"there is no number {number}: these messages ask for {len(jobs)} of them, from 1")
    job = jobs[number - 1]
    opening, _, rest = fenced(job).partition("\n")
    record, _, closing = rest.rpartition("\n")
    parts: list[dict[str, Any]] = []
    for slot, name, text in (
        ("system", "instructions", prompt.render_for_rank(job.rank, max_tokens=job.max_tokens)),
        ("user", "opening of the fence", f"{opening}\n"),
        ("user", "record", record),
        ("user", "end of the fence", f"\n{closing}"),
    ):
        parts.append({"slot": slot, "name": name, "fixed": name != "record", "tokens": count(text), "text": text})
    own = {name: getattr(job, name) for name in ("rank", "start", "stop", "max_tokens")}
    about = {"prompt": f"{prompt.name}/v{prompt.version}", **own, "number": number, "among": len(jobs), "parts": parts}
    fixed = sum(part["tokens"] for part in parts if part["fixed"])
    return {**about, "tokens": sum(part["tokens"] for part in parts), "fixed_tokens": fixed}

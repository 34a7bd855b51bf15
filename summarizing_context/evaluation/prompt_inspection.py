"""The rules for prompts, and the jobs that a prompt is sent for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from summarizing_context.assembly import open_context
from summarizing_context.settings import Settings, without_default_cap
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.extractive.sections import CONSTRAINTS, NAMES
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.prompts import Prompt, load, names

SUMMARIES = ("segment", "rollup")  # their replies have the fixed sections

_CAP = 450  # tokens of the fixed text, as sent; and what stands for `max_tokens` when it is counted
_CAP_OF_RULES = 600  # tokens; sent with a few short requests alone


def fixed_text(prompt: Prompt) -> str:
    """Return what is sent with every request, whatever it is about."""
    return prompt.render(**{name: _CAP if name == "max_tokens" else "" for name in prompt.placeholders})


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
    if "max_tokens" in given - prompt.placeholders:
        yield "it lacks the placeholder {{max_tokens}}, the longest summary"
    if unknown := prompt.placeholders - given:
        known = ", ".join(sorted(given))
        yield f"nothing fills in {', '.join(sorted(unknown))}; {prompt.name} prompts are given {known}"


async def jobs_for(messages: Sequence[dict[str, Any]], settings: Settings, purpose: str) -> list[SummaryJob]:
    """Return the jobs of one purpose that a session with these messages asks for, oldest first."""
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

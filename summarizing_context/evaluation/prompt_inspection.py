"""Checks of prompts, comparison of two prompts, and the requests that a prompt is sent with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from importlib.resources.abc import Traversable
from typing import Any, Literal, NamedTuple, cast

from summarizing_context.assembly import open_context
from summarizing_context.errors import PromptError, SettingsError
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.reading import message_text_parts
from summarizing_context.settings.values import Settings, without_default_cap
from summarizing_context.summarizers.base import SummaryJob
from summarizing_context.summarizers.extractive.sections import CONSTRAINTS, NAMES
from summarizing_context.summarizers.extractive.summarizer import summarize_extractively
from summarizing_context.summarizers.prompts import Prompt, load, names, prompts_root
from summarizing_context.summarizers.sdk import fenced

_CONSTRAINTS = f"## {NAMES[CONSTRAINTS]}"

Sign = Literal[" ", "-", "+", "…"]

_AROUND = 2  # unchanged lines that are shown before and after a change


class Change(NamedTuple):
    """One line of a comparison."""

    sign: Sign
    text: str


def compare_prompts(first: Prompt, second: Prompt) -> list[Change]:
    """The second prompt against the first; nothing where they say the same."""
    changes: list[Change] = []
    for line in list(unified_diff(_lines(first), _lines(second), n=_AROUND, lineterm=""))[2:]:
        if line.startswith("@@"):
            is_top = line.startswith(("@@ -1,", "@@ -1 "))
            changes += [] if is_top else [Change("…", "")]
        else:
            changes.append(Change(cast("Sign", line[0]), line[1:]))
    return changes


def _lines(prompt: Prompt) -> list[str]:
    focuses = [f"focus_{rank}: {text}" for rank, text in enumerate(prompt.focuses, start=1)]
    return [f"purpose: {prompt.purpose}", *focuses, *prompt.text.splitlines()]


MOST_TOKENS = 400  # of the fixed text, as sent

MOST_BY_NAME = {"rules": 600}  # sent with a few short requests alone

CAP = 400  # what stands for `max_tokens` when the fixed text is counted

SUMMARIES = ("segment", "rollup")  # their replies have the fixed sections

_GIVEN = {"segment": {"max_tokens"}, "rollup": {"max_tokens", "focus"}, "focus": {"max_tokens"},
    "rules": {"max_tokens"}, "proposal": {"current", "feedback"}, "compaction": {"characters"},
    "answers": {"abstention"}, "marks": {"right", "partly", "abstained", "wrong"}}  # fmt: skip


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
    complaints = list(_unread_files(root))
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
    tokens = count(fixed_text(prompt))
    most = MOST_BY_NAME.get(prompt.name, MOST_TOKENS)
    if tokens > most:
        yield f"its fixed text costs {tokens} tokens with every request; at most {most} are allowed"
    if prompt.name in SUMMARIES:
        yield from _sections(prompt)
    if unknown := prompt.placeholders - _GIVEN.get(prompt.name, prompt.placeholders):
        yield f"nothing fills in {', '.join(sorted(unknown))}; {prompt.name} prompts are given " + ", ".join(
            sorted(_GIVEN[prompt.name])
        )


def _sections(prompt: Prompt) -> Iterator[str]:
    found = [line.strip() for line in prompt.text.splitlines() if line.startswith("## ")]
    wanted = [f"## {name}" for name in NAMES]
    if _CONSTRAINTS not in found:  # rules may be asked for among them, or by the prompt `rules` alone
        wanted.remove(_CONSTRAINTS)
    if found != wanted:
        lacking = [name for name in wanted if name not in found]
        extra = [name for name in found if name not in wanted]
        problems = [f"lacks {', '.join(lacking)}"] * bool(lacking) + [f"has {', '.join(extra)} besides"] * bool(extra)
        yield f"its sections must be the fixed ones, in their order: it {' and '.join(problems) or 'has another order'}"


def _unread_files(root: Traversable) -> Iterator[Complaint]:
    """Files that nothing would read, and folders that nothing asks for."""
    known, purposes = set(names(root)), {folder.name for folder in prompts_root().iterdir() if folder.is_dir()}
    for folder in sorted((entry for entry in root.iterdir() if entry.is_dir()), key=lambda entry: entry.name):
        if folder.name.startswith("."):
            continue
        if folder.name not in purposes:
            yield Complaint(folder.name, f"nothing asks for prompts of this purpose; known are {_listed(purposes)}")
        for file in sorted(entry.name for entry in folder.iterdir()):
            if not file.startswith(".") and f"{folder.name}/{file.removesuffix('.md')}" not in known:
                yield Complaint(f"{folder.name}/{file}", "is not a prompt: name the file like v1.md")


def _listed(words: set[str]) -> str:
    return ", ".join(sorted(words))


RENDERED = ("segment", "rollup", "focus")

_LEAST_BUDGET = 1_000  # tokens


class RequestPart(NamedTuple):
    """One part of a request, exactly as it is sent."""

    slot: str  # "system" or "user"
    name: str
    fixed: bool  # the same with every request
    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """One request, and the messages that it is about."""

    prompt: str
    rank: int
    start: int
    stop: int
    number: int  # which of its kind, from 1
    among: int
    max_tokens: int  # cap of the answer
    parts: tuple[RequestPart, ...]

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)

    @property
    def fixed_tokens(self) -> int:
        return sum(part.tokens for part in self.parts if part.fixed)


class Recorder:
    """Notes what it is asked, and answers with an extractive summary."""

    def __init__(self) -> None:
        self.jobs: list[SummaryJob] = []

    async def summarize(self, job: SummaryJob) -> str:
        self.jobs.append(job)
        if job.kind == "rules":
            return "none"
        return summarize_extractively(
            job.content,
            kind="rollup" if job.kind == "rollup" else "segment",
            max_tokens=job.max_tokens,
            count=estimate_text,
        )


async def jobs_for(
    messages: Sequence[dict[str, Any]], settings: Settings, *, purpose: str, topic: str = "", rank: int = 1
) -> list[SummaryJob]:
    """The jobs of one purpose that a session with these messages asks for, oldest first."""
    recorder = Recorder()
    quiet = replace(without_default_cap(settings), store=":memory:", session_id="render", start_at=0.0, idle_after=None)
    if purpose == "focus":  # a note is about what is covered: cover about half
        history = sum(estimate_text(text) for message in messages for text in message_text_parts(message))
        quiet = replace(quiet, max_tokens=max(history // 2, _LEAST_BUDGET))
    async with open_context(quiet, summarizer=recorder) as context:
        await context.set_messages(list(messages))
        await context.wait_idle()
        summaries = len(recorder.jobs)
        if purpose == "focus":
            await context.compact(focus=topic)
            await context.wait_idle()
    if purpose == "rules":
        found = [job for job in recorder.jobs if job.kind == "rules"]
    elif purpose == "focus":
        found = [job for job in recorder.jobs[summaries:] if job.content.startswith("### topic")]
    else:
        wanted = 0 if purpose == "segment" else rank
        made = [job for job in recorder.jobs if job.kind != "rules" and not job.content.startswith("### topic")]
        found = [job for job in made if job.rank == wanted]
    return sorted(found, key=lambda job: job.start)


def render_request(prompt: Prompt, jobs: Sequence[SummaryJob], number: int, count: Callable[[str], int]) -> Rendered:
    """The request for one of the jobs, `number` from 1, with another prompt's instructions."""
    if not jobs:
        raise SettingsError(f"these messages ask for no {prompt.name}; take a longer transcript")
    if not 1 <= number <= len(jobs):
        raise SettingsError(f"there is no number {number}: these messages ask for {len(jobs)} of them, from 1")
    job = jobs[number - 1]
    instructions = prompt.render_for_rank(job.rank, max_tokens=job.max_tokens)
    sent = fenced(job)
    opening, _, rest = sent.partition("\n")
    record, _, closing = rest.rpartition("\n")
    parts = [
        ("system", "instructions", True, instructions),
        ("user", "opening of the fence", True, f"{opening}\n"),
        ("user", "record", False, record),
        ("user", "end of the fence", True, f"\n{closing}"),
    ]
    return Rendered(
        prompt=f"{prompt.name}/v{prompt.version}",
        rank=job.rank,
        start=job.start,
        stop=job.stop,
        number=number,
        among=len(jobs),
        max_tokens=job.max_tokens,
        parts=tuple(RequestPart(slot, name, fixed, count(text), text) for slot, name, fixed, text in parts),
    )

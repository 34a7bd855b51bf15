"""What views still hold at cuts of a session, beside views without summaries at equal tokens. No model judges.

    outcomes = run_logs([Log(path)], Settings(max_tokens=8_000))

At each cut our view says how many tokens all arms get. `tail` and `masking` are those of `real.arms`. The probes are
those of `probes`, or the questions of a data set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import msgspec

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, MessageError, SettingsError, TranscriptError
from summarizing_context.evaluation.cassettes import Cassette, RecordedModel, open_summarizer
from summarizing_context.evaluation.outcomes import Interval, difference, for_each, mean_of, ratios
from summarizing_context.evaluation.probes import (
    Message,
    Probe,
    Text,
    cuts_of,
    dataset_session,
    hindsight,
    read_session,
)
from summarizing_context.evaluation.real.arms import Past, masking, text_of
from summarizing_context.messages.reading import message_text_parts, read_message
from summarizing_context.messages.search_terms import query_terms
from summarizing_context.messages.shapes import check_message
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.settings.providers import PROVIDERS
from summarizing_context.settings.values import Settings
from summarizing_context.transcripts import AUTO, Transcript, find_transcripts, read
from summarizing_context.transcripts import read_session as read_transcript

OURS = "ours"
ARMS = {
    OURS: "this package with the settings that were given",
    "tail": "the first request and the newest messages",
    "masking": "the same, with old tool results taken out so that words and calls reach further back",
}


@dataclass(frozen=True, slots=True)
class Log:
    """One session to measure: of a transcript, or of a data set."""

    path: Path
    session_id: str = ""  # where the file holds several
    format: str = AUTO
    dataset: str = ""
    number: int = 0  # in the file of a data set
    name: str = ""

    def load(self) -> tuple[list[Message], list[Probe] | None]:
        """Return the messages, and the probes at their end where a data set brings some."""
        if self.dataset:
            return dataset_session(self.path, self.number)
        return list(read_transcript(self.path, session_id=self.session_id, format=self.format).messages), None


class Asked(msgspec.Struct, frozen=True):
    """One probe, and which arms hold it."""

    cut: int
    question: str
    literals: list[str]
    evidence: list[tuple[int, str]]  # message, its words around the answer
    used_at: int | None
    kept: dict[str, bool]  # by arm
    words: str  # of our view, around the answer


class SessionOutcome(msgspec.Struct, frozen=True):
    """What the views of one session held."""

    name: str
    messages: int
    tokens: int
    view_tokens: list[int]  # of ours, at each cut that was scored
    probes: list[Asked]
    recalled: tuple[int, int] = (0, 0)  # of the values that a view lacked at their use, those on one page of recall
    model_tokens: int = 0  # read and written for summaries

    def share(self, arm: str) -> tuple[float, float]:
        """Return how many probes an arm holds, out of how many."""
        return sum(asked.kept[arm] for asked in self.probes), len(self.probes)


class ArmScore(msgspec.Struct, frozen=True):
    """The retention of one arm: a mean over sessions with its interval, and by how much ours is ahead."""

    arm: str
    retention: Interval | None
    ours_ahead: Interval | None


def scores_of(outcomes: Sequence[SessionOutcome]) -> list[ArmScore]:
    """Return the score of each arm."""
    values = {arm: ratios((outcome.name, outcome.share(arm)) for outcome in outcomes) for arm in ARMS}
    ours = values[OURS]
    return [ArmScore(arm, mean_of(of), None if arm == OURS else difference(ours, of)) for arm, of in values.items()]


def read_checked(path: Path, format: str = AUTO) -> list[Transcript]:
    """Return the sessions of a file that hold messages. Raise `TranscriptError`, which names the first bad message."""
    sessions = [log for log in read(path, format=format) if log.messages]
    for log in sessions:
        for index, message in enumerate(log.messages):
            try:
                check_message(message)
            except MessageError as error:
                raise TranscriptError(f"{log.where(index)}: {error}") from error
    return sessions


def logs_of(paths: Sequence[Path], format: str = AUTO) -> tuple[list[Log], list[str]]:
    """Return each session of these files and folders, and the lines that were skipped.

    Raise `TranscriptError`, which names the first file that cannot be read and how many others, before anything is
    run.
    """
    found: list[Log] = []
    skipped: list[str] = []
    wrong: list[str] = []
    for path in find_transcripts(paths):
        try:
            sessions = read_checked(path, format)
        except TranscriptError as error:
            wrong.append(str(error))
            continue
        skipped += [line for log in sessions for line in log.unreadable]
        for log in sessions:
            name = path.stem if len(sessions) == 1 else f"{path.stem}#{log.session_id}"
            found.append(Log(path, log.session_id if len(sessions) > 1 else "", format, name=name))
    if wrong:
        others = f"; {len(wrong) - 1} more cannot be read" if len(wrong) > 1 else ""
        raise TranscriptError(f"{wrong[0]}{others}")
    return found, skipped


def run_logs(
    logs: Sequence[Log],
    settings: Settings,
    *,
    jobs: int = 1,
    cassette: Cassette | None = None,
    open_cassette: Callable[[], Cassette] | None = None,
) -> Iterator[SessionOutcome]:
    """Yield the outcome of each session in order, `jobs` at a time. With an open cassette they run one by one; without
    one, what a model says is replayed from a cassette that each process opens."""
    if cassette is not None:
        return (anyio.run(run_log, log, settings, cassette) for log in logs)
    return for_each(logs, partial(_run_apart, settings=settings, open_cassette=open_cassette), jobs)


def _run_apart(log: Log, settings: Settings, open_cassette: Callable[[], Cassette] | None) -> SessionOutcome:
    return anyio.run(run_log, log, settings, open_cassette and open_cassette())


async def run_log(log: Log, settings: Settings, cassette: Cassette | None = None) -> SessionOutcome:
    """Measure one session; what a model says comes through the cassette."""
    if cassette is None and settings.summarizer in PROVIDERS:
        raise SettingsError("summaries by a model are measured through a cassette; name its file with --cassette")
    messages, given = log.load()
    if cassette is not None:
        messages = [cassette.scrub(message) for message in messages]
        given = given and [one for one in given if all(cassette.clean(text) == text for text in one.literals)]
    reads, budget = read_session(messages), settings.max_tokens

    # At each cut: our view after an activation, the others with as many tokens, and what each of them holds.
    asked: list[Asked] = []
    view_tokens: list[int] = []
    async with open_summarizer(settings, cassette) as summarizer, open_arm(settings, summarizer) as context:
        for cut in cuts_of(messages) if given is None else [len(messages)]:
            if sum(read.tokens for read in reads[:cut]) <= budget:
                continue  # everything before it fits: nothing is left out
            await feed(context, messages[:cut], cassette)
            view = await _view_text(context, budget)
            tokens = context.last_view.tokens if context.last_view is not None else 0
            view_tokens.append(tokens)
            past = Past(messages[:cut], tokens)
            texts = {OURS: Text([view]), "tail": Text([past.view([])]), "masking": Text([masking(past)])}
            for probe in hindsight(reads, cut, budget) if given is None else given:
                value = probe.literals[0]
                evidence = [(at, Text(reads[at].words).excerpt(value)) for at in probe.evidence]
                kept = {arm: text.holds(*probe.literals) for arm, text in texts.items()}
                literals, words = list(probe.literals), texts[OURS].excerpt(value)
                asked.append(Asked(cut, probe.question, literals, evidence, probe.used_at, kept, words))
        statistics = context.statistics()

    recalled = (0, 0)
    if given is None and summarizer is None:  # with a model each use would have to be recorded
        async with open_arm(settings, None) as context:
            recalled = await _recall(context, messages, asked, budget)
    model_tokens = statistics.model_input_tokens + statistics.model_output_tokens
    total = sum(read.tokens for read in reads)
    return SessionOutcome(log.name or log.path.stem, len(messages), total, view_tokens, asked, recalled, model_tokens)


def open_arm(settings: Settings, summarizer: RecordedModel | None) -> AbstractAsyncContextManager[SummarizingContext]:
    """Return a context in memory that counts by the estimate that stays as it is, with summaries of everything."""
    made = replace(settings, store=":memory:", session_id="eval", image_tokens=0, idle_after=None, start_at=0.0)
    if summarizer is not None:  # an open breaker would make views depend on the order of failures
        made = replace(made, breaker_failures=1_000, max_calls_per_hour=None)
    return open_context(made, summarizer=summarizer, count_tokens=estimate_text)


async def feed(context: SummarizingContext, messages: Sequence[Message], cassette: Cassette | None) -> None:
    """Give a context these messages, and let every summary be made."""
    await context.set_messages(messages)
    await context.wait_idle()
    if cassette is not None:
        cassette.check()  # a context makes good what is missing; an eval must not


async def _view_text(context: SummarizingContext, budget: int) -> str:
    """The words of a view that follows an activation, with all merges that a model has to make for it."""
    for number in range(2):  # a merge that the first view lacks is in the second
        provider = SimpleNamespace(name=f"{len(context)}-{number}")
        try:
            await context.get_messages_for_request(token_budget=budget, provider=provider)
        except BudgetError:
            return ""
        nodes = context.explain(drops=False)
        await context.wait_idle()
        if not any(node.segments > 1 and node.made_by == "stand-in" for node in nodes):
            break
    assert context.last_view is not None
    return text_of(context.last_view.messages)


async def _recall(
    context: SummarizingContext, messages: Sequence[Message], asked: Sequence[Asked], budget: int
) -> tuple[int, int]:
    """How many of the values that a view lacks at their use stand on one page of recall, out of how many. What is
    asked are the newest words of the human and of the assistant."""
    held = missing = 0
    for at in sorted({one.used_at for one in asked if one.used_at is not None}):
        await feed(context, messages[:at], None)
        shown = Text([await _view_text(context, budget)])
        wanted = [one.literals[0] for one in asked if one.used_at == at and not shown.holds(one.literals[0])]
        missing += len(wanted)

        said: dict[str, str] = {}
        for message in reversed(messages[:at]):
            reading = read_message(message)
            who = "human" if reading.human else reading.role
            texts = (text for text in message_text_parts(message) if not text.lstrip().startswith("<system-reminder"))
            words = "\n".join(texts).strip()
            if who in ("human", "assistant") and words and not reading.answers:
                said.setdefault(who, words)
            if len(said) == 2:
                break
        query = "\n".join(said.values())
        if not wanted or not query_terms(query):
            continue
        page = (await context.recall(query, 2_000)).text
        # The paths of a folder, `src/{app.py,page.py}`, are read one by one, as a reader of the page understands them.
        folders = re.findall(r"(?<!\S)([^\s{}]*/)\{([^\s{}]+)\}", page)
        whole = Text([page, *(folder + name for folder, names in folders for name in names.split(","))])
        held += sum(whole.holds(value) for value in wanted)
    return held, missing

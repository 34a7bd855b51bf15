"""What views still hold at cuts of a session, beside views without summaries at equal tokens. No model judges.

    outcomes = run_logs(logs_of([path])[0], Settings(max_tokens=8_000))

At each cut our view says how many tokens all arms get. `tail` and `masking` are those of `real.arms`. What is asked for
is found without a model and without labels: a hindsight probe is a value that was seen before a cut and that a short
argument of a later tool call uses. It must not stand in the newest part of the past, nor appear again between cut and
use. A data set brings questions with answers instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import anyio
import msgspec

from summarizing_context.assembly import open_context
from summarizing_context.context import SummarizingContext
from summarizing_context.errors import BudgetError, MessageError, SettingsError, TranscriptError
from summarizing_context.evaluation.cassettes import Cassette, open_summarizer
from summarizing_context.evaluation.outcomes import Interval, difference, for_each, mean_of, ratios
from summarizing_context.evaluation.real.arms import Message, Past, masking, text_of
from summarizing_context.extraction.values import exact_values
from summarizing_context.messages.reading import read_message
from summarizing_context.messages.shapes import check_message
from summarizing_context.messages.tokens import MESSAGE_TOKENS, estimate_text
from summarizing_context.settings.values import PROVIDERS, Settings
from summarizing_context.transcripts import AUTO, Transcript, find_transcripts, read
from summarizing_context.transcripts import read_session as read_transcript
from summarizing_context.transcripts.base import load

OURS = "ours"
ARMS = {
    OURS: "this package with the settings that were given",
    "tail": "the first request and the newest messages",
    "masking": "the same, with old tool results taken out so that words and calls reach further back",
}
_MAX_PROBES = 200  # of one cut
_MAX_REFERENCE_CHARS = 400  # a longer argument is content rather than a reference
_GOLD = ("rubric", "answer", "ideal_answer", "ideal_summary", "instruction_being_tested", "preference_being_tested")
_MAX_MENTIONS = 5  # messages of a chat: what more of them say may stand in a view for another reason


@dataclass(frozen=True, slots=True)
class Log:
    """One session to measure. `load` returns its messages, and the probes at their end where a data set brings some."""

    name: str
    load: Callable[[], tuple[list[Message], list[Probe] | None]]


class Asked(msgspec.Struct, frozen=True):
    """One probe, and which arms hold it."""

    cut: int
    question: str
    literals: list[str]
    evidence: list[tuple[int, str]]  # message, its words around the answer
    used_at: int | None
    kept: dict[str, bool]  # by arm
    words: str  # of our view, around the answer
    category: str = ""  # of the question, where a data set has some
    weight: float = 1.0  # the values of one question weigh 1 together


class SessionOutcome(msgspec.Struct, frozen=True):
    """What the views of one session held."""

    name: str
    messages: int
    tokens: int
    view_tokens: list[int]  # of ours, at each cut that was scored
    probes: list[Asked]
    model_tokens: int = 0  # read and written for summaries

    def share(self, arm: str, category: str | None = None) -> tuple[float, float]:
        """Return the weight of the probes that an arm holds, out of how much; of one category if it is named."""
        probes = [asked for asked in self.probes if category in (None, asked.category)]
        return sum(asked.kept[arm] * asked.weight for asked in probes), sum(asked.weight for asked in probes)


class ArmScore(msgspec.Struct, frozen=True):
    """The retention of one arm: a mean over sessions with its interval, and by how much ours is ahead."""

    arm: str
    retention: Interval | None
    ours_ahead: Interval | None


def scores_of(outcomes: Sequence[SessionOutcome], category: str | None = None) -> list[ArmScore]:
    """Return the score of each arm, of one category of probes if it is named."""
    values = {arm: ratios((outcome.name, outcome.share(arm, category)) for outcome in outcomes) for arm in ARMS}
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
    """Return each session of these files and folders, and the lines that were skipped. Raise `TranscriptError`, which
    names the first file that cannot be read, before anything is run."""
    found: list[Log] = []
    skipped: list[str] = []
    for path in find_transcripts(paths):
        sessions = read_checked(path, format)
        for log in sessions:
            skipped += log.unreadable
            id, name = ("", path.stem) if len(sessions) == 1 else (log.session_id, f"{path.stem}#{log.session_id}")
            found.append(Log(name, partial(_read_log, path, id, format)))
    return found, skipped


def _read_log(path: Path, session_id: str, format: str) -> tuple[list[Message], None]:
    return list(read_transcript(path, session_id=session_id, format=format).messages), None


def run_logs(
    logs: Sequence[Log], settings: Settings, *, jobs: int = 1, cassette: Cassette | Callable[[], Cassette] | None = None
) -> Iterator[SessionOutcome]:
    """Yield the outcome of each session in order, `jobs` at a time. What a model says comes through an open cassette,
    then one by one, or through the one that `cassette` opens for each session."""
    jobs = 1 if isinstance(cassette, Cassette) else jobs
    return for_each(logs, partial(_run_one, settings=settings, cassette=cassette), jobs)


def _run_one(log: Log, settings: Settings, cassette: Cassette | Callable[[], Cassette] | None) -> SessionOutcome:
    return anyio.run(run_log, settings, cassette, log, None)


async def run_log(
    settings: Settings,
    cassette: Cassette | Callable[[], Cassette] | None,
    log: Log,
    summaries: dict[tuple[int, int], str] | None,
) -> SessionOutcome:
    """Measure one session. Segment summaries are put into `summaries`."""
    if cassette is None and settings.summarizer in PROVIDERS:
        raise SettingsError("summaries by a model are measured through a cassette; name its file with --cassette")
    if not isinstance(cassette, Cassette | None):
        cassette = cassette()
    messages, given = log.load()
    if cassette is not None:
        messages = [cassette.scrub(message) for message in messages]
        given = given and [one for one in given if all(cassette.clean(text) == text for text in one.literals)]
    reads, budget = read_session(messages), settings.max_tokens

    # At each cut: our view after an activation, the others with as many tokens, and what each of them holds.
    asked: list[Asked] = []
    view_tokens: list[int] = []
    made = replace(settings, store=":memory:", session_id="eval", image_tokens=0, idle_after=None, start_at=0.0)
    async with AsyncExitStack() as stack:
        summarizer = await stack.enter_async_context(open_summarizer(settings, cassette))
        if summarizer is not None:  # an open breaker would make views depend on the order of failures
            made = replace(made, breaker_failures=1_000, max_calls_per_hour=None)
        context = await stack.enter_async_context(open_context(made, summarizer=summarizer, count_tokens=estimate_text))
        for cut in cuts_of(messages) if given is None else [len(messages)]:
            if sum(read.tokens for read in reads[:cut]) <= budget:
                continue  # everything before it fits: nothing is left out
            await context.set_messages(messages[:cut])
            await context.wait_idle()
            if cassette is not None:
                cassette.check()  # a context makes good what is missing; an eval must not
            view = await _view_text(context, budget)
            tokens = context.last_view.tokens if context.last_view is not None else 0
            view_tokens.append(tokens)
            past = Past(messages[:cut], tokens)
            texts = {OURS: Text([view]), "tail": Text([past.view([])]), "masking": Text([masking(past)])}
            for probe in hindsight(reads, cut, budget) if given is None else given:
                value = probe.literals[0]
                evidence = [(at, Text(reads[at].words).excerpt(value)) for at in probe.evidence]
                kept = {arm: text.holds(*probe.literals) for arm, text in texts.items()}
                told = cut, probe.question, list(probe.literals), evidence, probe.used_at, kept
                asked.append(Asked(*told, texts[OURS].excerpt(value), probe.category, probe.weight))
        statistics = context.statistics()
        if summaries is not None:
            summaries.update({(node.start, node.stop): node.text for node in context.summaries()})
    model_tokens = statistics.model_input_tokens + statistics.model_output_tokens
    total = sum(read.tokens for read in reads)
    return SessionOutcome(log.name, len(messages), total, view_tokens, asked, model_tokens)


async def _view_text(context: SummarizingContext, budget: int) -> str:
    """The words of a view that follows an activation, with all merges that a model has to make for it."""
    for number in range(2):  # a merge that the first view lacks is in the second
        provider = SimpleNamespace(name=f"{len(context)}-{number}")
        try:
            view = await context.get_messages_for_request(token_budget=budget, provider=provider)
        except BudgetError:
            return ""
        nodes = context.explain(drops=False)
        await context.wait_idle()
        if not any(node.segments > 1 and node.made_by == "stand-in" for node in nodes):
            break
    return text_of(view)


# What is asked for


@dataclass(frozen=True, slots=True)
class Probe:
    """What a view is asked for: all these words, which stand in these messages (from 0)."""

    question: str
    literals: tuple[str, ...]
    evidence: tuple[int, ...]
    used_at: int | None = None  # the message whose tool call used it
    category: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Read:
    """One message as probes see it. Tokens are those of the built-in estimate; images cost nothing."""

    role: str
    tokens: int
    words: tuple[str, ...]  # texts, names of called tools, arguments as plain values
    seen: frozenset[str]  # exact values of its texts
    used: tuple[str, ...]  # those that its calls use


def read_session(messages: Sequence[Message]) -> list[Read]:
    """Return every message as probes see it."""
    found = []
    for message in messages:
        reading = read_message(message)
        texts = tuple(text for part in reading.parts if part.kind != "call" for text in part.texts)
        calls = [part for part in reading.parts if part.kind == "call"]
        arguments = tuple(value for part in calls for value in _values("".join(part.texts[:1])))
        used: dict[str, None] = {}
        for text in arguments:
            if len(text) <= _MAX_REFERENCE_CHARS:
                bare = text.strip()
                if 4 <= len(bare) <= 40 and bare.isalnum() and any(map(str.isdigit, bare)) and not bare.isdigit():
                    used[bare] = None
                used |= dict.fromkeys(exact_values(text))
        tokens = MESSAGE_TOKENS + sum(map(estimate_text, reading.texts))
        words = (*texts, *(part.name for part in calls), *arguments)
        seen = frozenset(value for text in texts for value in exact_values(text))
        found.append(Read(reading.role, tokens, words, seen, tuple(used)))
    return found


def _values(arguments: str) -> list[str]:
    """The strings and numbers in the arguments of a call."""
    try:
        return [str(value) for value in _leaves(json.loads(arguments))]
    except (ValueError, RecursionError):
        return [arguments]


def _leaves(value: Any, whole: str = "") -> Iterator[Any]:
    """Yield the strings and numbers in nested JSON, and objects with the key `whole` as they are."""
    left = [value]
    while left:
        value = left.pop(0)
        if isinstance(value, list) or (isinstance(value, dict) and whole not in value):
            left[:0] = value.values() if isinstance(value, dict) else value
        elif value is not None and not isinstance(value, bool):
            yield value


class Text:
    """Texts ready to be searched for whole words, in any case and with any white space."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.text = re.sub(r"[^\S\n]+", " ", "\n".join(texts)).casefold()

    def place(self, literal: str) -> int:
        """Return where the literal stands as whole words first; -1 if nowhere."""
        wanted = " ".join(literal.casefold().split())
        at = self.text.find(wanted) if wanted else -1
        while at >= 0:
            before, after = self.text[at - 1 : at], self.text[at + len(wanted) : at + len(wanted) + 1]
            if not (wanted[0].isalnum() and before.isalnum()) and not (wanted[-1].isalnum() and after.isalnum()):
                break
            at = self.text.find(wanted, at + 1)
        return at

    def holds(self, *literals: str) -> bool:
        """Return whether all the literals stand here."""
        return all(self.place(literal) >= 0 for literal in literals)

    def excerpt(self, literal: str) -> str:
        """Return the words around a literal; empty where it does not stand."""
        place = self.place(literal)
        return "" if place < 0 else " ".join(self.text[max(0, place - 60) : place + 120].split())


def cuts_of(messages: Sequence[Message]) -> list[int]:
    """Return the assistant messages nearest to 40, 60 and 80 % of a session."""
    places = [at for at, message in enumerate(messages) if message.get("role") == "assistant" and at > 0]
    wanted = (share * len(messages) for share in (0.4, 0.6, 0.8))
    return sorted({min(places, key=lambda at: abs(at - place)) for place in wanted}) if places else []


def hindsight(reads: Sequence[Read], cut: int, budget: int) -> list[Probe]:
    """Return the values that were needed after a cut, those that were needed first before the others."""
    first, last = dict[str, int](), dict[str, int]()
    for at, message in enumerate(reads[:cut]):
        for value in (*message.seen, *message.used):
            first.setdefault(value, at)
            last[value] = at

    # The newest part, some 16 % of the budget and one message at least, is raw in every view.
    sums = list(accumulate((message.tokens for message in reads[:cut]), initial=0))
    kept = next((at for at in range(cut) if sums[cut] - sums[at] <= 0.16 * budget), max(0, cut - 1))
    tail = Text(text for message in reads[kept:cut] for text in message.words)
    shown = {value for message in reads[kept:cut] for value in (*message.seen, *message.used)}
    shown.update(value for message in reads if message.role in ("system", "developer") for value in message.seen)

    found: dict[str, Probe] = {}
    for at, message in enumerate(reads[cut:], cut):
        for value in message.used:
            if value in first and value not in shown and value not in found and not tail.holds(value):
                evidence = tuple(dict.fromkeys((first[value], last[value])))
                if any(Text(reads[place].words).holds(value) for place in evidence):
                    found[value] = Probe(f"what message {at} needs", (value,), evidence, at)
        shown.update(message.seen, message.used)
    return list(found.values())[:_MAX_PROBES]


# Data sets


def dataset_logs(dataset: str, path: Path) -> list[Log]:
    """Return every session of a data set under a file or folder. Raise `TranscriptError`, which says what is wrong in
    it, before anything is run."""
    if dataset not in ("locomo", "beam"):
        raise SettingsError(f"there is no data set {dataset!r}; known are locomo and beam")
    patterns = ["*.json"] if dataset == "locomo" else ["chat.json", "chat.json.gz"]
    files = sorted(file for pattern in patterns for file in path.rglob(pattern)) if path.is_dir() else [path]
    if not files:
        raise TranscriptError(f"{path}: the folder holds no {patterns[0]}; name the folder or file of {dataset}")
    logs = []
    for file in files:
        if dataset == "locomo":
            found = load(file).value
            talks = enumerate(found if isinstance(found, list) else [found])
            logs += [Log(f"{file.stem}-{number}", partial(_locomo_session, file, talk)) for number, talk in talks]
        else:
            _read_beam(file)
            folders = file.parent.relative_to(path).parts if path.is_dir() else ()
            logs.append(Log("/".join(folders) or file.absolute().parent.name, partial(_beam_session, file)))
    return logs


def _locomo_session(path: Path, document: Any) -> tuple[list[Message], list[Probe]]:
    """Return the messages of one conversation of LoCoMo, a message a turn with the first speaker as user, and its
    questions at the end: those of the categories 1 to 4 with answers that stand word for word in their evidence. Raise
    `TranscriptError`."""
    messages: list[Message] = []
    places: dict[str, int] = {}  # of the turns, by id
    probes = []
    try:
        talk = document["conversation"]
        numbers = sorted(int(key.removeprefix("session_")) for key in talk if re.fullmatch(r"session_\d+", key))
        asking = talk[f"session_{numbers[0]}"][0]["speaker"]
        for session in numbers:
            for at, turn in enumerate(talk[f"session_{session}"]):
                places[str(turn["dia_id"])] = len(messages)
                date = f"({talk[f'session_{session}_date_time']}) " if at == 0 else ""
                seen = f" [shows a picture: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                role = "user" if turn["speaker"] == asking else "assistant"
                messages.append({"role": role, "content": f"{date}{turn['speaker']}: {turn['text']}{seen}"})
        for question in document["qa"]:
            if question.get("category") in (1, 2, 3, 4) and question.get("answer") not in (None, ""):
                ids = re.findall(r"D\d+:\d+", str(question.get("evidence")))
                evidence = tuple(dict.fromkeys(places[id] for id in ids if id in places))
                found = Text(messages[at]["content"] for at in evidence)
                answers = tuple(one for one in _literals(str(question["answer"])) if found.holds(one))
                if answers:
                    probes.append(Probe(str(question["question"]), answers, evidence))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise TranscriptError(f"{path}:1: no session of locomo ({type(error).__name__}: {error})") from error
    return messages, probes


def _literals(answer: str) -> list[str]:
    """The parts of an answer, without small words at their beginning."""
    small = ["a", "an", "and", "at", "by", "for", "from", "her", "his", "in", "is", "it", "of", "on", "the", "to"]
    parts = []
    for part in re.split(r",| and |;", answer):
        words = part.strip(" .!?\"'").split()
        while words and words[0].lower() in small:
            words.pop(0)
        if words:
            parts.append(" ".join(words))
    return parts


class BeamMessage(msgspec.Struct, frozen=True):
    """One message of a chat of BEAM."""

    id: int
    role: Literal["user", "assistant"]
    content: str


def _read_beam(chat: Path) -> tuple[list[BeamMessage], dict[str, list[dict[str, Any]]]]:
    """Return the messages of a chat, which lie in turns of batches, and its probing questions by category. Raise
    `TranscriptError`."""
    names, file = ("probing_questions.json*", "probing_questions/probing_questions.json*"), chat
    try:
        said = [one for one in _leaves(load(chat).value, "role") if isinstance(one, dict)]
        messages = msgspec.convert(said, Annotated[list[BeamMessage], msgspec.Meta(min_length=1)])
        asked = [file for name in names for file in sorted(chat.parent.glob(name))]
        if not asked:
            raise TranscriptError(f"{chat}:1: no probing_questions.json is in its folder; fetch that too")
        file = asked[0]
        questions = msgspec.convert(load(file).value, dict[str, list[dict[str, Any]]])
    except msgspec.ValidationError as error:
        raise TranscriptError(f"{file}:1: not as BEAM is published: {error}") from error
    if len({message.id for message in messages}) < len(messages):
        raise TranscriptError(f"{chat}:1: two messages have one id, so sources of questions name no message")
    return messages, questions


def _beam_session(chat: Path) -> tuple[list[Message], list[Probe]]:
    """Return the messages of a chat of BEAM, and the facts of its probing questions: runs of words of answer and rubric
    that stand in the source messages, in few others, and not in the question. The facts of a question weigh 1 together.
    """
    messages, categories = _read_beam(chat)
    places = {str(message.id): at for at, message in enumerate(messages)}
    texts = [Text([message.content]) for message in messages]
    probes = []
    for category, questions in categories.items():
        for one in questions:
            ids = dict.fromkeys(map(str, _leaves(one.get("source_chat_ids"))))
            sources = [places[id] for id in ids if id in places]
            said, asked = Text(texts[at].text for at in sources), Text([str(one.get("question"))])
            gold = map(str, _leaves([one.get(name) for name in _GOLD]))
            runs = {run.casefold(): run for text in gold for run in _shared_runs(text, said) if not asked.holds(run)}
            facts = [run for run in runs.values() if sum(text.holds(run) for text in texts) <= _MAX_MENTIONS]
            for fact in facts:
                evidence = tuple(at for at in sources if texts[at].holds(fact))
                probes.append(Probe(str(one.get("question")), (fact,), evidence, None, category, 1 / len(facts)))
    return [{"role": message.role, "content": message.content} for message in messages], probes


def _shared_runs(text: str, said: Text) -> Iterator[str]:
    """Yield the longest runs of words of a text that are said elsewhere too, if they have a digit or three words of
    four letters. Small words at their ends are left out."""
    for clause in re.split(r"[.,;:!?]+(?:\s|$)|[\n\"“”()\[\]`]|\B'|'\B", text):
        words = clause.split()
        while words:
            length = 0
            while length < len(words) and said.holds(" ".join(words[: length + 1])):
                length += 1
            run, words = words[:length], words[max(1, length) :]
            while run and len(run[0]) < 4 and run[0].islower():
                run.pop(0)
            while run and len(run[-1]) < 4 and run[-1].islower():
                run.pop()
            if any(map(str.isdigit, "".join(run))) or sum(len(word) > 3 for word in run) > 2:
                yield " ".join(run)

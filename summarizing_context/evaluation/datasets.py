"""Data sets: sessions, the places in them where views are compared, and what is asked there.

    Dataset.load("logs/")              # transcripts of any known format: values that were needed later
    Dataset.load("beam:chats/100K")    # chats and questions as BEAM publishes them; locomo:FILE is that of LoCoMo
    Dataset.load("real")               # recorded answers of a checkout; or a folder that `eval ask` has recorded

Recorded answers are a folder: `cases.toml` names the cases, `logs/` holds their messages before the cut, `questions/`
what is asked there, which arms were read and by which models. `cassette.jsonl`, or packed `cassette.jsonl.gz`, holds
the replies: summaries, answers from views, and marks. `settings.json` and `prompts/` hold what shapes views otherwise
than shipped.

Transcripts need no label: a value was needed later if it was seen before a cut and a short argument of a later tool
call uses it. It must not stand in the newest part of the past, nor be seen again in between.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from summarizing_context.errors import SettingsError, TranscriptError
from summarizing_context.evaluation.views import Case, Message, Text, parts_of, text_of
from summarizing_context.extraction.facts import WORDS
from summarizing_context.messages.reading import parsed, read_message
from summarizing_context.messages.tokens import MESSAGE_TOKENS, estimate_text
from summarizing_context.settings import PLACES, Settings
from summarizing_context.stores.private_files import replace_private
from summarizing_context.summarizers.prompts import names
from summarizing_context.transcripts import AUTO, find_transcripts, read_named, read_session
from summarizing_context.transcripts.base import load

ABSENT = "absent"  # the category of questions that the record does not answer; they are scored apart
CASES = "cases.toml"
_SETTINGS, _PROMPTS = "settings.json", "prompts"
_SHAPES_NO_VIEW = re.compile(  # settings of places, the session, the machine and the model; a case has its own budget
    "prompts|prices|session_id|project|max_tokens|summarizer|model|token_counter|max_wait|allow_download|idle_after"
    "|concurrency|call_timeout|attempts|breaker_.*|max_.*_per_.*|embedding|embedding_model|vector_store"
    "|similarity_threshold|checkpoint_interval_messages|memory_include|memory_extract"
)

_GOLD = ("rubric", "answer", "ideal_answer", "ideal_summary", "instruction_being_tested", "preference_being_tested")
_SMALL_WORDS = re.compile(r"(?i)\A(?:(?:a|an|and|at|by|for|from|her|his|in|is|it|of|on|the|to)(?: |\Z))+")
_MAX_MENTIONS = 5  # messages of a chat: what more of them say may stand in a view for another reason

_ENDINGS = "|".join(WORDS["files"]["endings"])

_VALUE = re.compile(
    rf"""(?<![\w@])(?:
    https?://[^\s"'<>`)\]}},\\]{{3,400}}
    | (?<![.+-]) [\w.+-]{{1,64}}@[\w-]{{1,64}}(?:\.[\w-]{{1,32}}){{1,4}}
    | (?<![.~/+-]) (?:~|\.{{1,2}})?/?(?:[\w@.+\#%-]{{1,80}}/){{1,24}}[\w@.+\#%-]{{1,120}}
    | (?<![\w/.-])[\w-]{{1,80}}(?:\.[\w-]{{1,30}}){{0,3}}\.(?:{_ENDINGS})\b(?![/\w])
    | (?<![.,/-]) [$€£]?\d{{1,3}}(?:,\d{{3}}){{1,6}}(?:\.\d{{1,12}})? (?![\w/-])
    | (?<![/.-]) \#?(?:\d{{4,20}}(?:\.\d{{1,12}})?|\d{{1,20}}\.\d{{2,12}}) (?![\w/-]|\.\d)
    | (?<![/-]) \#?(?=[\w-]{{0,60}}(?:\d|[^\W_]_[^\W_]|[a-z][A-Z])) [A-Za-z0-9_][\w-]{{2,99}} (?![\w/-])
    )""",
    re.VERBOSE,
)
_WITH_UNIT = re.compile(r"\d+(?:ns|us|ms|s|m|h|d|k|kb|mb|gb|px|x|am|pm|min|km|kg|cm|mm|st|nd|rd|th)", re.IGNORECASE)
_NO_VALUE = re.compile(  # the numbers of a listing's lines, line ends in JSON or code, and the line numbers of grep
    rf"^ *\d+(?=[\t→:|])|\\[nrt]|(?<=\.)((?:{_ENDINGS}))-\d+-", re.MULTILINE
)


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question about what stands before a cut, with its answer by a reader of the whole log, or `values`."""

    id: str
    category: str
    question: str
    answer: str = ""
    evidence: list[int] = []  # messages, from 0
    values: list[str] = []  # that a view has to hold word for word


Cases = list[tuple[Case, list[Question]]]


def exact_values(text: str) -> list[str]:
    """Return the exact values of a text, each once, in order. Quotes, times and short numbers are none."""
    found: dict[str, None] = {}
    for match in _VALUE.finditer(_NO_VALUE.sub(r"\1 ", text[:100_000])):
        value = match[0].rstrip(".,:;-_*#$%/!?'")
        if "/" in value and "://" not in value:
            value = value[2:] if value.startswith(("a/", "b/")) and value.count("/") > 1 else value  # as diffs have it
            name = value.rpartition("/")[2]
            if not {".", "@"} & set(name) and (value.count("/") < 2 or not any(map(str.isalpha, name))):
                continue  # as in and/or, or a date
        elif len(value) < 4 or (value[0].isdigit() and _WITH_UNIT.fullmatch(value)):
            continue
        found[value] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class Log:
    """One log of a data set. Logs of one session count as one."""

    name: str
    session: str
    read: Callable[[], Sequence[Message]] = field(repr=False)
    # What is asked at each place, by messages without secrets and budget.
    ask: Callable[[list[Message], int], Cases] = field(repr=False)


@dataclass(frozen=True)
class Dataset:
    """Sessions with what is asked about them. `recording` holds the recorded answers, where there are some."""

    name: str
    logs: list[Log]
    skipped: list[str] = field(default_factory=list)  # lines that cannot be read, as `file:line: why`
    recording: Recording | None = None

    @classmethod
    def load(cls, *sources: str | Path, format: str = AUTO) -> Dataset:
        """Return the data set of these sources: transcripts and folders of them, or one of `real`, a folder of recorded
        answers, `beam:PATH`, `locomo:PATH`.

        Raise `TranscriptError`, which names the first file that cannot be read, before anything is run, and
        `SettingsError` for sources that cannot be one data set.
        """
        first = str(sources[0]) if sources else ""
        named, _, place = first.partition(":")
        checkouts = [one / "evals" / first for one in (Path.cwd(), *Path.cwd().parents)] if first.isalnum() else []
        folder = next((one for one in (*checkouts, Path(first)) if (one / CASES).is_file()), None)
        if named in ("beam", "locomo") and place:
            path, patterns = Path(place), ("chat.json", "chat.json.gz") if named == "beam" else ("*.json",)
            files = sorted(file for one in patterns for file in path.rglob(one)) if path.is_dir() else [path]
            if not files:
                raise TranscriptError(f"{path}: the folder holds no {patterns[0]}; name the folder or file of {named}")
            talks = (one for file in files for one in (_beam(path, file) if named == "beam" else _locomo(file)))
            found = cls(named, [Log(id, id, partial(list, rows), partial(_at_end, id, ask)) for id, rows, ask in talks])
        elif folder is not None:
            found = recorded(Recording.open(folder))
        else:
            if missing := [str(one) for one in sources if str(one) != "-" and not Path(one).exists()]:
                ways = "a folder of recorded answers, beam:PATH or locomo:PATH. `real` stands in a checkout"
                about = f"there is no such file, folder or data set here; give transcripts, {ways}"
                raise SettingsError(f"{missing[0]}: {about}")
            found = cls("your sessions", [])
            for path in find_transcripts([*map(Path, sources)]):
                sessions, stem = read_named(path, format=format), Path(path.name.removesuffix(".gz")).stem
                for log in sessions.values():
                    found.skipped.extend(log.unreadable)
                    id, name = ("", stem) if len(sessions) == 1 else (log.session_id, f"{stem}#{log.session_id}")
                    read_log = partial(_own_messages, path, id, format)
                    found.logs.append(Log(name, name, read_log, partial(_own_cases, name)))
            return found
        if len(sources) > 1:
            raise SettingsError(f"{first} is a data set of its own; give it alone")
        return found


# Transcripts, by hindsight


def _own_messages(path: Path, session_id: str, format: str) -> Sequence[Message]:
    return read_session(path, session_id=session_id, format=format).messages


def _own_cases(name: str, messages: list[Message], budget: int) -> Cases:
    """Return the cuts of a session, but those before which all fits the budget, and the values needed after each."""
    reads = read_messages(messages)
    cuts = [cut for cut in cuts_of(messages) if sum(read.tokens for read in reads[:cut]) > budget]
    return [(Case(f"{name}@{cut}", "", cut, budget, "", "", name), hindsight(reads, cut, budget)) for cut in cuts]


@dataclass(frozen=True, slots=True)
class Read:
    """One message as probes see it. Tokens are those of the built-in estimate; images cost nothing."""

    role: str
    tokens: int
    words: tuple[str, ...]  # texts, names of called tools, arguments as plain values
    seen: frozenset[str]  # exact values of its texts
    used: tuple[str, ...]  # those that its calls use


def read_messages(messages: Sequence[Message]) -> list[Read]:
    """Return every message as probes see it."""
    found = []
    for message in messages:
        reading = read_message(message)
        texts = tuple(text for part in reading.parts if part.kind != "call" for text in part.texts)
        calls = [part for part in reading.parts if part.kind == "call"]
        arguments: list[str] = []
        for part in calls:
            given = parsed("".join(part.texts[:1]))
            arguments += part.texts[:1] if given is None else map(str, _leaves(given))
        used: dict[str, None] = {}
        for text in arguments:
            # a longer argument is content rather than a reference, and a round number is a limit, such as a timeout
            if len(text) <= 400 and not re.fullmatch(r"\d+000", text):
                bare = text.strip()
                if 4 <= len(bare) <= 40 and bare.isalnum() and any(map(str.isdigit, bare)) and not bare.isdigit():
                    used[bare] = None
                used |= dict.fromkeys(exact_values(text))
        words = (*texts, *(part.name for part in calls), *arguments)
        seen = frozenset(value for text in texts for value in exact_values(text))
        found.append(Read(reading.role, message_tokens(message), words, seen, tuple(used)))
    return found


def message_tokens(message: Message) -> int:
    """Return the tokens of a message by the built-in estimate; images cost nothing."""
    return MESSAGE_TOKENS + sum(map(estimate_text, read_message(message).texts))


def _leaves(value: Any, whole: str = "") -> Iterator[Any]:
    """Yield the strings and numbers in nested JSON, and objects with the key `whole` as they are."""
    left = [value]
    while left:
        value = left.pop(0)
        if isinstance(value, list) or (isinstance(value, dict) and whole not in value):
            left[:0] = value.values() if isinstance(value, dict) else value
        elif value is not None and not isinstance(value, bool):
            yield value


def cuts_of(messages: Sequence[Message]) -> list[int]:
    """Return the assistant messages nearest to 40, 60 and 80 % of a session."""
    places = [at for at, message in enumerate(messages) if message.get("role") == "assistant" and at > 0]
    wanted = (share * len(messages) for share in (0.4, 0.6, 0.8))
    return sorted({min(places, key=lambda at: abs(at - place)) for place in wanted}) if places else []


def hindsight(reads: Sequence[Read], cut: int, budget: int) -> list[Question]:
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

    # Such as `in_progress` that no text says: the agent has it of a tool's definition.
    said = {value for message in reads[:cut] for value in message.seen}
    shown.update(value for value in first if value not in said and re.fullmatch(r"[a-z]+(_[a-z]+)+|/dev/null", value))

    found: dict[str, Question] = {}
    for at, message in enumerate(reads[cut:], cut):
        for value in message.used:
            if value in first and value not in shown and value not in found and not tail.holds(value):
                evidence = tuple(dict.fromkeys((first[value], last[value])))
                excerpts = [Text(reads[place].words).excerpt(value) for place in evidence]
                if around := excerpts[-1] or excerpts[0]:
                    kind = "name" if re.search(r"[^\W\d]", value) else "number"
                    kind = "path" if re.search(r"[/\\]|\.\w{1,4}$", value) else kind
                    asked = f"What message {at} needs"
                    found[value] = Question(f"{at}: {value}", kind, asked, around, [*evidence], [value])
        shown.update(message.seen, message.used)
    return list(found.values())[:200]  # of one cut


# Published data sets


def _at_end(name: str, ask: Callable[[], list[Question]], messages: list[Message], budget: int) -> Cases:
    """Ask about a published session at its end; where it fits the budget, nothing is asked."""
    if sum(map(message_tokens, messages)) <= budget:
        return []
    return [(Case(name, "", len(messages), budget, "", "", name), ask())]


def _locomo(file: Path) -> Iterator[tuple[str, list[Message], Callable[[], list[Question]]]]:
    """Yield LoCoMo's conversations, with questions of categories 1 to 4 whose answers stand in their evidence."""
    talks = load(file).value
    for number, document in enumerate(talks if isinstance(talks, list) else [talks]):
        messages, questions = list[Message](), list[Question]()
        places: dict[str, int] = {}  # of the turns, by id
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
            for asked in document["qa"]:
                if asked.get("category") in (1, 2, 3, 4) and asked.get("answer") not in (None, ""):
                    ids = re.findall(r"D\d+:\d+", str(asked.get("evidence")))
                    evidence = [*dict.fromkeys(places[id] for id in ids if id in places)]
                    said = Text(messages[at]["content"] for at in evidence)
                    parts = re.split(r",| and |;", str(asked["answer"]))
                    bare = (_SMALL_WORDS.sub("", " ".join(part.strip(" .!?\"'").split())) for part in parts)
                    if answers := [one for one in bare if one and said.holds(one)]:
                        told = str(asked["question"]), str(asked["answer"]), evidence
                        questions.append(Question(f"q{len(questions) + 1}", "", *told, values=answers))
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            about = f"not as locomo10.json is published ({type(error).__name__}: {error})"
            raise TranscriptError(f"{file}:1: {about}") from error
        yield f"{file.stem}-{number}", messages, partial(list, questions)


class BeamMessage(msgspec.Struct, frozen=True):
    id: int
    role: Literal["user", "assistant"]
    content: str


def _beam(path: Path, chat: Path) -> Iterator[tuple[str, list[Message], Callable[[], list[Question]]]]:
    """Yield one chat of BEAM: messages lie in turns of batches, questions by category in a file next to the chat."""
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
    rows = [{"role": message.role, "content": message.content} for message in messages]
    folders = chat.parent.relative_to(path).parts if path.is_dir() else ()
    yield "/".join(folders) or chat.absolute().parent.name, rows, partial(_beam_questions, messages, questions)


def _beam_questions(messages: list[BeamMessage], categories: dict[str, list[dict[str, Any]]]) -> list[Question]:
    """Return BEAM's questions with their facts: runs of words of an answer that its sources and few others hold."""
    places = {str(message.id): at for at, message in enumerate(messages)}
    texts = [Text([message.content]) for message in messages]
    questions = []
    for category, given in categories.items():
        for number, one in enumerate(given, 1):
            ids = dict.fromkeys(map(str, _leaves(one.get("source_chat_ids"))))
            sources = [places[id] for id in ids if id in places]
            said, asked = Text(texts[at].text for at in sources), Text([str(one.get("question"))])
            gold = [*map(str, _leaves([one.get(name) for name in _GOLD]))]
            runs = {run.casefold(): run for text in gold for run in _shared_runs(text, said) if not asked.holds(run)}
            facts = [run for run in runs.values() if sum(text.holds(run) for text in texts) <= _MAX_MENTIONS]
            evidence = [at for at in sources if any(texts[at].holds(fact) for fact in facts)]
            told = str(one.get("question")), "; ".join(gold), evidence
            if facts:
                questions.append(Question(f"{category} {number}", category, *told, values=facts))
    return questions


def _shared_runs(text: str, said: Text) -> Iterator[str]:
    """Yield the longest runs of words that are said elsewhere too and have a digit or three words of four letters."""
    for clause in re.split(r"[.,;:!?]+(?:\s|$)|[\n\"“”()\[\]`]|\B'|'\B", text):
        words = clause.split()
        while words:
            length = 0
            while length < len(words) and said.holds(" ".join(words[: length + 1])):
                length += 1
            run, words = words[:length], words[max(1, length) :]
            large = [at for at, word in enumerate(run) if len(word) > 3 or not word.islower()]
            run = run[large[0] : large[-1] + 1] if large else []
            if any(map(str.isdigit, "".join(run))) or sum(len(word) > 3 for word in run) > 2:
                yield " ".join(run)


# Recorded answers


class AskedCase(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is asked at a cut, the arms whose views are read, and the models, as their requests name them."""

    questions: list[Question] = []
    arms: list[str] = []
    writer: str = ""  # of summaries
    judge: str = ""  # who reads views, and marks the answers


@dataclass
class Recording:
    """The cases of one folder."""

    folder: Path
    cases: list[Case] = field(repr=False)
    asked: dict[str, AskedCase] = field(default_factory=dict, repr=False)  # by case
    settings: Settings = field(default_factory=Settings, repr=False)

    @classmethod
    def open(cls, folder: Path) -> Recording:
        """Read a folder. Raise `TranscriptError` naming the file that cannot be read."""
        cases = read_file(folder / CASES, dict[Literal["case"], list[Case]]).get("case", [])
        found = cls(folder, [msgspec.structs.replace(one, session=one.session or one.name) for one in cases])
        if (folder / _SETTINGS).exists():
            prompts = folder / _PROMPTS if (folder / _PROMPTS).is_dir() else None
            values = read_file(folder / _SETTINGS, dict[str, Any])
            found.settings = replace(Settings.from_mapping(values), prompts=prompts)
        for case in found.cases:
            if (path := folder / "questions" / f"{case.name}.json").exists():
                found.asked[case.name] = read_file(path, AskedCase)
        return found

    @property
    def cassette(self) -> Path:
        """The file of all replies, packed or not."""
        packed = self.folder / "cassette.jsonl.gz"
        return packed if packed.exists() else self.folder / "cassette.jsonl"

    def messages(self, case: Case) -> list[Message]:
        """Return the messages before the cut."""
        path = self.folder / "logs" / case.log
        try:
            messages = list(read_session(path).messages)
            if len(messages) >= case.cut:
                return messages[: case.cut]
            raise TranscriptError(f"{path}:1: {len(messages)} messages, but {case.name} is cut at {case.cut}")
        except TranscriptError as error:
            raise TranscriptError(f"{error}; bring it back ({case.source}), or ask again into a new folder") from error

    def at(self, case: Case) -> AskedCase:
        """Return what is asked at the cut; nothing where no questions were written."""
        return self.asked.get(case.name, AskedCase())

    def write(self, case: Case, asked: AskedCase) -> None:
        """Write what is asked at a cut into its file."""
        document = {"transcript": case.name, "cut": case.cut, **msgspec.to_builtins(asked)}
        replace_private(self.folder / "questions" / f"{case.name}.json", indented(document))
        self.asked[case.name] = asked


def read_file(path: Path, kind: Any) -> Any:
    """Return what a file of TOML or JSON holds. Raise `TranscriptError`."""
    try:
        return (msgspec.toml if path.suffix == ".toml" else msgspec.json).decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise TranscriptError(f"{path}: cannot be read ({error.strerror}); name a folder with a {CASES}") from error
    except ValueError as error:
        line = re.search(r"at line (\d+)", str(error))  # of TOML; else it is one JSON value
        why = f"holds something else than it should ({error}); bring the file back, or delete it and record again"
        kept = "replies that are kept in the cassette are not sent again"
        raise TranscriptError(f"{path}:{line[1] if line else 1}: {why}: {kept}") from error


def with_own_case(
    folder: Path, log: Path, messages: Sequence[Message], *, cut: float, budget: int, own: Settings, to: Path
) -> Recording:
    """Return a folder with a log of the user's as its only case, added to `to` if new. Its view is taken at the last
    message of the assistant before which at most `cut`, a share of the characters, stands. Raise `TranscriptError`."""
    sums = list(accumulate((sum(len(part.text) for part in parts_of(each)) for each in messages), initial=0))
    places = (at for at, message in enumerate(messages) if message.get("role") == "assistant")
    at, files = max((at for at in places if sums[at] <= cut * sums[-1]), default=0), _files_of(own)
    session = log.name.removesuffix(".gz").removesuffix(".jsonl")
    name = f"{session}-{at}"
    if (folder / CASES).exists():
        recording = Recording.open(folder)
        if _files_of(recording.settings) != files:
            raise TranscriptError(f"{folder}: holds views with other settings or prompts; take a new folder with --out")
        for case in (case for case in recording.cases if case.name == name):
            if case.budget != budget or recording.messages(case) != messages[:at]:
                held = f"{name} with another budget ({case.budget}) or another log"
                raise TranscriptError(f"{folder}: holds {held}; take a new folder")
            return replace(recording, cases=[case])
    if (size := estimate_text(text_of(messages[:at]))) <= budget:
        held = f"the {at} messages before the cut have {size} tokens, so all views hold them all"
        raise TranscriptError(f"{log}: {held}; take a budget below {size}, or a later cut")
    for file, content in files.items():  # first: a folder with a case and without its settings would be another one
        replace_private(to / file, content)
    case = Case(name, f"{name}.jsonl.gz", at, budget, "a log of the user's", "not to be published", session)
    quoted = partial(json.dumps, ensure_ascii=False)  # as TOML has it: JSON's escapes beyond U+FFFF are none of TOML's
    lines = "".join(quoted(message) + "\n" for message in messages[:at])
    replace_private(to / "logs" / case.log, gzip.compress(lines.encode("utf8", "surrogatepass"), mtime=0))
    known = (to / CASES).read_text(encoding="utf8") + "\n" if (to / CASES).exists() else ""
    rows = [f"{key} = {quoted(value)}\n" for key, value in msgspec.structs.asdict(case).items() if value]
    replace_private(to / CASES, f"{known}[[case]]\n{''.join(rows)}".encode())
    return replace(Recording.open(to), cases=[case])


def _files_of(settings: Settings) -> dict[str, bytes]:
    """Return what is kept of settings, by file; nothing where all are as shipped."""
    root = settings.prompts and Path(settings.prompts)
    files = {f"{_PROMPTS}/{name}.md": (root / f"{name}.md").read_bytes() for name in names(root)} if root else {}
    changed = {name: one for name, one in changed_settings(settings).items() if not _SHAPES_NO_VIEW.fullmatch(name)}
    if changed or files:
        files[_SETTINGS] = indented(dict(sorted(changed.items())))
    return files


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, without those that name a place."""
    names = [name for name in settings.__slots__ if not name.startswith("_") and name not in PLACES]
    return {name: one for name in names if (one := getattr(settings, name)) != getattr(Settings(), name)}


def indented(document: Any) -> bytes:
    """Return a document as JSON that a person can read in a diff."""
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def recorded(recording: Recording) -> Dataset:
    """Return the cases of recorded answers, each as a session of its own."""
    logs = [
        Log(case.name, case.session, partial(recording.messages, case), partial(_recorded_case, recording, case))
        for case in recording.cases
    ]
    return Dataset(recording.folder.resolve().name, logs, [], recording)


def _recorded_case(recording: Recording, case: Case, messages: list[Message], _: int) -> Cases:
    """Return what is asked at a cut, with the facts of each gold answer that its evidence alone holds."""
    reads, questions = read_messages(messages), []
    for one in recording.at(case).questions:
        said, asked = Text(text for at in one.evidence for text in reads[at].words), Text([one.question])
        found = [value for value in exact_values(one.answer) if said.holds(value)] or _shared_runs(one.answer, said)
        facts = list(dict.fromkeys(value for value in found if not asked.holds(value)))
        questions.append(msgspec.structs.replace(one, values=[] if one.category == ABSENT else facts))
    return [(case, questions)]

"""What stands for each node: ready summaries, and stand-ins where there is none."""

from __future__ import annotations

import pytest

from summarizing_context.concurrency import YieldNow, never_yield
from summarizing_context.log.entries import output_hash, rollup_hash
from summarizing_context.log.message_log import MessageLog
from summarizing_context.log.tree import Node, NodeText
from summarizing_context.settings.values import SummarySizes
from summarizing_context.summarizers.extractive.summarizer import Extracts
from summarizing_context.worker.covered_ranges import Foreseen, HeaderPlace
from summarizing_context.worker.summary_cache import SummaryCache
from tests.making import assistant, entries, session, timeline, user

CAP = 20


class Pass:
    """The extractive passes; remembers what they read."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.skimmed: list[str] = []
        self.left_out: list[str] = []
        self.fails = False

    def extracts(self) -> Extracts:
        return Extracts(self.thorough, self.skim, self.brief, self.cut, self.key_lines, self.about, self.excerpt)

    def thorough(self, content: str, *, kind: str, max_tokens: int, yield_now: YieldNow = never_yield) -> str:
        yield_now(len(content))
        self.read.append(content)
        return f"{kind} of {len(content)}"

    def skim(self, content: str, max_tokens: int) -> str:
        self.skimmed.append(content)
        return f"skimmed {len(content)}"

    def brief(self, text: str, max_tokens: int) -> str:
        return text[:5]

    def cut(self, text: str, max_tokens: int) -> str:
        return text[:7]

    def key_lines(self, text: str, max_tokens: int) -> list[str]:
        if self.fails:
            raise RuntimeError("not read")
        self.left_out.append(text)
        return [f"{len(text)} characters"]

    def about(self, content: str, topic: str, max_tokens: int) -> str:
        return "\n".join(f"- {line}" for line in content.splitlines() if topic in line)

    def excerpt(self, content: str, topic: str, max_tokens: int) -> str:
        return "\n".join(line for line in content.splitlines() if topic in line)


def sizes_of(cap: int) -> SummarySizes:
    """Sizes for a header in which a merge is due as soon as there are so many segments as to fill it."""
    return SummarySizes(cap, 2 * cap, 4, 16.0 * cap)


def book(log: MessageLog | None = None, maker: str = "model") -> tuple[SummaryCache, MessageLog, Pass]:
    log = timeline(session(messages=150)) if log is None else log
    passes = Pass()
    return SummaryCache(log, passes.extracts(), maker=maker, sizes=sizes_of(CAP)), log, passes


def give(made: SummaryCache, node: Node, text: str, passes: int = 1) -> str:
    hash = made.hash_of(node)
    assert hash is not None
    made.add(node, hash, NodeText(text, "model", passes))
    return hash


def test_without_a_summary_a_stand_in_is_made_once():
    made, log, passes = book()
    assert made.text_of(Node.leaf(0)).made_by == "stand-in"
    made.text_of(Node.leaf(0))
    assert passes.read == [log.content(0)]


def test_a_merge_is_needed_once_a_view_is_about_to_cover_more_than_its_header_holds():
    made, log, _ = book(timeline(session(messages=400)))
    for leaf in range(len(log.segments)):
        give(made, Node.leaf(leaf), "word " * CAP)
    assert made.needed_merges() == []
    made.foresee(Foreseen(range(4)))
    assert made.needed_merges() == []
    made.foresee(Foreseen(range(16)))
    (first,) = made.needed_merges()
    assert 0 < first.stop <= 16
    made.reset()
    assert made.needed_merges() == []


def test_the_next_merge_is_foreseen_from_what_the_present_one_takes():
    texts = {"short": "word", "long": "word " * (4 * CAP)}
    needed = {}
    for name, text in texts.items():
        made, log, _ = book(timeline(session(messages=400)))
        for leaf in range(len(log.segments)):
            give(made, Node.leaf(leaf), "word " * CAP)
        merge = Node(0, 4)
        give(made, merge, text)
        made.keep_headers([HeaderPlace(merge, 16.0 * CAP)])
        made.foresee(Foreseen(range(8)))
        needed[name] = [node for node in made.needed_merges() if node != merge]
    assert not needed["short"]
    assert needed["long"]


def test_the_extractive_maker_needs_no_stand_ins():
    made, _, _ = book(maker="extractive")
    assert made.text_of(Node(0, 4)).made_by == "extractive"


def test_a_summary_takes_the_place_of_its_stand_in_and_of_the_rollups_over_it():
    made, _, _ = book()
    before = made.text_of(Node(0, 4))
    give(made, Node.leaf(1), "better")
    assert made.text_of(Node.leaf(1)).text == "better"
    assert made.text_of(Node(0, 4)) != before


def test_a_models_summary_of_a_piece_is_cut_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch):
    made, _, _ = book()
    monkeypatch.setattr(made.open, "text_of", lambda piece: NodeText("What a model says.", "model", 1))
    assert made.ready_piece(range(3), 9) == NodeText("What a model says.", "model", 1)
    assert made.ready_piece(range(3), 3) == NodeText("What a ", "model", 1)


def test_the_first_summary_of_a_hash_stays():
    made, _, _ = book()
    give(made, Node.leaf(0), "first")
    give(made, Node.leaf(0), "second")
    assert made.text_of(Node.leaf(0)).text == "first"


def test_a_rollup_is_named_by_its_children_once_all_are_ready():
    made, _, _ = book()
    for n in range(3):
        give(made, Node.leaf(n), f"text {n}")
    assert made.hash_of(Node(0, 4)) is None
    give(made, Node.leaf(3), "text 3")
    assert made.hash_of(Node(0, 4)) == rollup_hash(1, [output_hash(f"text {n}") for n in range(4)])
    assert not made.is_ready(Node(0, 4))
    give(made, Node(0, 4), "all")
    assert made.is_ready(Node(0, 4))
    assert made.text_of(Node(0, 4)).text == "all"


def test_passes_count_the_longest_way_from_the_source():
    made, _, _ = book()
    for n in range(4):
        give(made, Node.leaf(n), f"text {n}", passes=n)
    assert made.passes_of_new(Node.leaf(0)) == 1
    assert made.passes_of_new(Node(0, 4)) == made.text_of(Node(0, 4)).passes == 4


def test_a_short_segment_is_its_own_summary():
    log = timeline([user("a " * 150), assistant("b " * 150), user("c " * 150), assistant("d " * 150)] * 3)
    long_cap, passes = max(segment.size for segment in log.segments), Pass()
    made = SummaryCache(log, passes.extracts(), maker="model", sizes=sizes_of(long_cap))
    assert made.is_ready(Node.leaf(0))
    assert made.text_of(Node.leaf(0)) == NodeText(log.content(0), "verbatim", 0)
    assert passes.read == []


def test_a_node_that_is_not_there_has_no_hash():
    made, log, _ = book()
    assert made.hash_of(Node(0, len(log.segments))) is None
    assert not made.is_ready(Node(0, len(log.segments)))
    assert made.hash_of(Node(400, 404)) is None


def test_a_summary_of_a_replaced_log_finds_its_content_in_its_new_place():
    messages = session(messages=150)
    made, log, _ = book(timeline(messages))
    old = Node.leaf(4)
    hash = made.hash_of(old)
    log.replace(entries([user("new " * 400), assistant("ok"), *messages[1:]]))
    made.reset()
    (place,) = [n for n, other in enumerate(log.hashes) if other == hash]
    assert place != old.start
    assert made.text_of(Node.leaf(place)).made_by == "stand-in"
    made.add(old, hash, NodeText("late", "model", 1))
    assert made.text_of(Node.leaf(place)).text == "late"


def test_a_summary_of_repeated_content_serves_all_its_places():
    log = timeline([user("word " * 90), assistant("word " * 90), user("x " * 190), assistant("x " * 190)] * 12)
    made, _, _ = book(log)
    places = [n for n, hash in enumerate(log.hashes) if log.hashes.count(hash) > 1 and hash == log.hashes[-1]]
    for n in places:
        made.text_of(Node.leaf(n))
    give(made, Node.leaf(places[0]), "shared")
    assert {made.text_of(Node.leaf(n)).text for n in places} == {"shared"}


def test_after_a_reset_contents_keep_their_summaries():
    made, _, _ = book()
    give(made, Node.leaf(2), "kept")
    made.reset()
    assert made.text_of(Node.leaf(2)).text == "kept"


def test_beyond_what_an_activation_may_read_at_leisure_it_skims_and_still_reads_all():
    log = timeline(session(seed=3, messages=900))
    made, _, passes = book(log)
    made.begin()
    for n in range(len(log.segments)):
        made.text_of(Node.leaf(n))
    assert 0 < len(passes.skimmed) < len(log.segments)
    verbatim = [n for n in range(len(log.segments)) if made.text_of(Node.leaf(n)).made_by == "verbatim"]
    assert set(passes.read + passes.skimmed) == {log.content(n) for n in range(len(log.segments)) if n not in verbatim}
    assert made.unseen_tokens(len(log.segments)) == 0


def test_what_nobody_read_is_unseen():
    made, log, _ = book()
    assert made.unseen_tokens(2) == log.segments[0].size + log.segments[1].size
    made.text_of(Node.leaf(0))
    made.mark_read(log.hashes[2])
    assert made.unseen_tokens(3) == log.segments[1].size
    made.provisional(range(log.segments[1].start, log.segments[1].stop), 100)
    assert made.unseen_tokens(3) == 0


def test_a_provisional_text_without_room_is_empty_and_a_small_one_is_skimmed():
    made, _, passes = book()
    assert made.provisional(range(3), 0).text == ""
    assert made.provisional(range(3), 30).text.startswith("skimmed")
    assert made.provisional(range(3), 90).text.startswith("segment")
    assert len(passes.read) == len(passes.skimmed) == 1

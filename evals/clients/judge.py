"""What is said of a session, from what the provider saw and from what the proxy told of its activations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evals.clients.upstream import Seen, kept_items

# US dollars for a million tokens, read from the cache, written to it and replied. Claude Opus 5.5, and for all others
# gpt-6.2-sol, by their providers' pages; the step of the latter, above 272,000 tokens, is reached by no request here.
PRICES = {"claude": (0.2, 5.0, 20.0)} | dict.fromkeys(("codex", "opencode", "pi"), (0.1, 2.5, 10.0))


@dataclass(slots=True)
class Verdict:
    """One session of one client. What has to be zero comes first."""

    client: str
    version: str
    above_budget: int = 0  # requests with more tokens than the budget, by the judge's count
    refused: int = 0  # requests that the provider found wrong
    unexplained: int = 0  # requests that do not begin with the one before, and no activation was told
    lost: int = 0  # results of tools that did not reach the provider
    failures: int = 0  # requests that a failure of the proxy let pass
    mixed: int = 0  # sessions of the proxy that hold more than one history of the client
    legs: int = 0
    legs_right: int = 0  # in which the client said what was expected
    compactions: int = 0  # of the client itself
    taken_up: int = 0  # of these, with the summary in a later request
    requests: int = 0
    activations: int = 0
    budget: int = 0
    most_tokens: int = 0
    tokens: int = 0  # of all requests
    cached: int = 0  # of these, begun with the request before
    dollars: float = (
        0.0  # at PRICES, with the summaries that the client asks for; without other replies, and our summarizer
    )
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything is as it should be."""
        wrong = self.above_budget + self.refused + self.unexplained + self.lost + self.failures + self.mixed
        return not wrong and (self.legs_right, self.taken_up) == (self.legs, self.compactions)

    def check(self, holds: bool, words: str) -> None:
        """Count something that has to hold."""
        self.legs += 1
        self.legs_right += holds
        self.problems += [] if holds else [words]

    def note(self, seen: Seen) -> None:
        """Count what one request says by itself."""
        if seen.problem or seen.lost:
            self.problems.append(f"request {seen.number} of {seen.kind}: {seen.problem or f'misses {seen.lost}'}")
        self.requests += 1
        self.above_budget += seen.tokens > self.budget
        self.refused += bool(seen.problem)
        self.lost += len(seen.lost)
        self.tokens += seen.tokens
        self.cached += seen.cached
        self.most_tokens = max(self.most_tokens, seen.tokens)
        read, written, replied = PRICES[self.client]
        price = seen.cached * read + (seen.tokens - seen.cached) * written + seen.written * replied
        self.dollars += price / 1e6


def judge(verdict: Verdict, seen: Sequence[Seen], told: Mapping[str, Any]) -> None:
    """Fill in what the requests say; `told` is the status of the proxy, if there was one."""
    # A record is known by the tokens that the reply told as its output; one of a reply that broke off, by its place.
    records, by_number = told.get("records", ()), {each.number: each for each in seen}
    found = {number: record for record in records if (number := (record["usage"] or {}).get("output", 0)) in by_number}
    rest = [record for record in records if record not in found.values()]
    broken_off = [number for number, each in by_number.items() if number not in found and not each.ended]
    found |= dict(zip(broken_off, rest, strict=False))

    before: dict[str, Seen] = {}
    threads: dict[str, set[tuple[str, bool]]] = {}
    for each in seen:
        verdict.note(each)
        last, record = before.get(each.thread), found.get(each.number)
        if not each.problem:
            before[each.thread] = each
        if record is not None:
            name = each.thread.removeprefix("compaction:"), each.kind == "child"
            threads.setdefault(record["session"], set()).add(name)
        if last is not None and each.kind != "compaction" and not (record and record["activation"]):
            between = seen[last.number : each.number - 1]
            is_compacted = any(one.kind == "compaction" for one in between)  # by the client itself
            if kept_items(last.items, each.items) < len(last.items) and not is_compacted:
                verdict.unexplained += 1
                verdict.problems.append(f"request {each.number} does not begin with request {last.number}")
        if each.kind == "compaction" and each.ended:
            later = (item for one in seen[each.number :] if one.kind == "agent" for item in one.items)
            verdict.compactions += 1
            verdict.taken_up += any(f"SUMMARY {each.number}:" in item for item in later)
    verdict.mixed = sum(len(names) > 1 for names in threads.values())
    verdict.activations = sum(bool(record["activation"]) for record in records)
    verdict.failures = told.get("failures", 0)
    if told.get("last_failure"):
        verdict.problems.append(f"the proxy let requests pass after {told['last_failure']}")

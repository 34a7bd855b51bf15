"""What is said of a session, from what the provider saw and from what the proxy told of its activations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evals.clients.script import summary_name
from evals.clients.tokens import kept_items
from evals.clients.upstream import UNIQUE, Seen


@dataclass(slots=True)
class Verdict:
    """One session of one client. What has to be zero comes first."""

    client: str
    version: str
    above_budget: int = 0  # requests with more tokens than the budget, by the judge's count
    refused: int = 0  # requests that the provider found wrong
    unexplained: int = 0  # requests that do not begin with the one before, and no activation was told
    lost: int = 0  # results of tools that did not reach the provider
    unchanged_by_failure: int = 0  # requests that a failure of the proxy let pass
    mixed: int = 0  # sessions of the proxy that hold more than one history of the client
    final_arrived: bool = False  # the model's last words, in what the client printed
    legs_right: int = 0
    legs: int = 0
    requests: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    sessions: int = 0  # that the proxy told apart
    agents: int = 0  # of these, with nothing but a child agent's requests
    activations: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    compactions: int = 0  # summaries that the client asked for, for its own compaction
    taken_up: int = 0  # of these, found in a later request
    alone_above: int = 0  # single messages without tools above the budget: no view makes them shorter
    breaks: int = 0  # requests that do not begin with the one before, but for the client's own compaction
    most_tokens: int = 0
    budget: int = 0
    tokens: int = 0  # of all requests
    cached: int = 0  # of these, begun with the request before
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything is as it should be."""
        wrong = self.above_budget + self.refused + self.unexplained + self.lost + self.unchanged_by_failure + self.mixed
        return not wrong and self.final_arrived and (self.legs_right, self.taken_up) == (self.legs, self.compactions)

    def asdict(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}


def judge(
    verdict: Verdict, seen: Sequence[Seen], records: Sequence[Mapping[str, Any]], told: Mapping[str, Any]
) -> None:
    """Fill in what the requests say."""
    found = _told(seen, records)
    activated = {number for number, record in found.items() if record["activation"]}
    before: dict[str, Seen] = {}
    for each in seen:
        last = before.get(each.thread)
        if not each.problem:
            before[each.thread] = each
        if last is not None and not _goes_on(seen, last, each):
            verdict.breaks += 1
            if each.number not in activated:
                verdict.unexplained += 1
                words = f"request {each.number} of {each.kind} does not begin with request {last.number}"
                verdict.problems.append(words)
        if each.problem:
            verdict.problems.append(f"request {each.number} of {each.kind}: {each.problem}")
        if each.lost:
            verdict.problems.append(f"request {each.number} misses {each.lost}")
        verdict.by_kind[each.kind] = verdict.by_kind.get(each.kind, 0) + 1
        if each.tokens > verdict.budget:
            verdict.alone_above += _is_alone(each)
            verdict.above_budget += not _is_alone(each)
        verdict.refused += bool(each.problem)
        verdict.lost += len(each.lost)
        verdict.tokens += each.tokens
        verdict.cached += each.cached
        verdict.most_tokens = max(verdict.most_tokens, each.tokens)
    verdict.requests = len(seen)
    asked = [each.number for each in seen if each.kind == "compaction" and each.ended]
    verdict.compactions = len(asked)
    verdict.taken_up = sum(any(_holds(each, summary_name(number)) for each in seen[number:]) for number in asked)
    held: dict[str, set[tuple[str, bool]]] = {}
    for each in seen:
        if each.number in found:
            thread = each.thread.removeprefix("compaction:")
            held.setdefault(found[each.number]["session"], set()).add((thread, each.kind == "child"))
    verdict.sessions, verdict.mixed = len(held), sum(len(threads) > 1 for threads in held.values())
    verdict.agents = sum(all(is_agent for _, is_agent in threads) for threads in held.values())
    reasons = [record["activation"] for record in records if record["activation"]]
    verdict.activations = len(reasons)
    verdict.reasons = {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    verdict.unchanged_by_failure = told.get("failures", 0)
    if told.get("last_failure"):
        verdict.problems.append(f"the proxy let requests pass after {told['last_failure']}")


def _goes_on(seen: Sequence[Seen], last: Seen, now: Seen) -> bool:
    """Whether a request begins with the one before, or the client has compacted its history between the two."""
    between = seen[last.number : now.number - 1]
    begins = kept_items(last.items, now.items) == len(last.items)
    return begins or any(other.kind == "compaction" for other in between)


def _is_alone(seen: Seen) -> bool:
    """Whether a request is one message and brings no tools, as OpenCode asks for the summary of a session."""
    roles = [json.loads(item).get("role") for item in seen.items]
    return seen.kind in ("plain", "compaction") and sum(role not in ("system", "developer") for role in roles) == 1


def _holds(seen: Seen, words: str) -> bool:
    return seen.kind == "agent" and any(words in item for item in seen.items)


def _told(seen: Sequence[Seen], records: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
    """By the number of a request, what the proxy told of it.

    A record is known by the tokens that the reply told as its output; one of a reply that broke off, by its place.
    """
    numbers = {each.number for each in seen}
    found: dict[int, Mapping[str, Any]] = {}
    rest: list[Mapping[str, Any]] = []
    for record in records:
        number = (record["usage"] or {}).get("output", 0) - UNIQUE
        if number in numbers:
            found[number] = record
        else:
            rest.append(record)
    missing = [each.number for each in seen if each.number not in found and not each.ended]
    found.update(zip(missing, rest, strict=False))
    return found

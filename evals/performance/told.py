"""The sentences of the report that no figure decides: what it is, its scenario, its limits, how to make it again."""

from __future__ import annotations

INTRODUCTION = (
    "One synthetic agent session is driven through this package and through the context managers of other "
    "frameworks, each in an environment and a process of its own, each by its public interface, with the same "
    "summarizer of known latency and the same token counter (four characters are a token). Each peer runs with its "
    "documented defaults, and once more tuned so that its mean view is as large as ours, or as near as it can come."
)
SCENARIO = (
    "Budget 16,000 tokens, a system row of 400. A turn has about 476 tokens on average: a question, a call with its "
    "result, an answer; every 10th turn makes two calls at once, every 25th is a loop of six calls, every 40th has a "
    "result of 2,000 tokens. A view is asked for before every call of the agent, 2.2 times a turn. Summaries have "
    "300 tokens. Summarizer 50 ms, agent 10 ms, as 20 s to 4 s would be."
)
BETTER = (
    "Found in the figures of the main run, at most three peers each, differences under 3 % left out. Truncation is not "
    "listed: it is faster, smaller and cheaper than everybody, and keeps nothing."
)
LIMITS = (
    "The summarizer is a fake: latency, calls, sizes and reach are measured, the quality of summaries is not.",
    "Token counts are characters over four, for everybody; a real tokenizer would shift all rows alike.",
    "Prices are list-price ratios, not bills; the agent's own output is left out because it is the same for all.",
    "Times are of one machine and one run: read differences below a third as noise, most of all under a millisecond.",
    "A trigger of 85 % of the budget is given to peers that have no default of their own; what a framework does around "
    "its context manager (checkpoints, graphs, streaming) is not measured.",
    "Ours writes every message to disk before an append returns and the peers keep a list in memory: their appends are "
    "faster, and lose the session with the process.",
    "Text counts as kept if it went into a summary that the view stands on, whether or not that mentions it.",
    "Peers are measured at the versions named below; later ones may differ.",
    "The price presets take a perfect prefix cache; real ones expire and evict.",
)
HOW = """make bench-peers                       # environments, all runs, this page
make bench                             # ours alone, in under a minute
python -m evals.performance.run langchain --turns 200      # one run, as JSON

A peer that needs Python 3.12 finds it as python3.12, or by PYTHON312=/path/to/python3.12."""

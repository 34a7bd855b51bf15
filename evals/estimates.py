"""How far token estimates are from the truth: those of budgets and cuts, and four characters a token, against tiktoken.

Run from a checkout as `python -m evals.estimates <folder of transcripts>`. Each transcript counts alike, however long.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from statistics import mean

from summarizing_context.errors import SummarizingContextError, TranscriptError
from summarizing_context.messages.counters import choose_counter
from summarizing_context.messages.estimate import estimates
from summarizing_context.messages.reading import message_text_parts
from summarizing_context.transcripts import find_transcripts, read_session


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="+", type=Path, help="transcripts, or folders of them")
    try:
        print(_compared(parser.parse_args().paths))
    except SummarizingContextError as error:
        parser.error(str(error))


def _compared(given: list[Path]) -> str:
    counter = asyncio.run(choose_counter("tiktoken"))
    budgets, cuts, fourths = [], [], []
    for path in find_transcripts(given):
        texts = [text for message in read_session(path).messages for text in message_text_parts(message)]
        true = sum(map(counter.count, texts))
        if true:
            cut, budget = map(sum, zip(*map(estimates, texts), strict=True))
            budgets.append(abs(budget / true - 1))
            cuts.append(abs(cut / true - 1))
            fourths.append(abs(sum(len(text) / 4 for text in texts) / true - 1))
    if not budgets:
        raise TranscriptError(f"{given[0]}: the transcripts hold no text; name others")
    errors = f"budgets {mean(budgets):.1%}, cuts {mean(cuts):.1%}, characters / 4 {mean(fourths):.1%}"
    return f"{len(budgets)} transcripts, mean error of their totals: {errors}"


if __name__ == "__main__":
    main()

"""Write the corpus of transcripts beside this file: `python tests/data/make_corpus.py`.

All text is ours and comes from fixed seeds, so a second run writes the same bytes.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from corpus_calls import CALL_CASES
from corpus_contents import CONTENT_CASES
from corpus_text import Message

# Those written as plain text, for a reader; the others are packed.
PLAIN = {
    "lone_surrogates",
    "starts_with_assistant",
    "results_of_several_groups",
    "user_role_calls",
    "amplifier_shapes",
}
FOLDER = Path(__file__).parent / "transcripts"


def encode(messages: list[Message]) -> bytes:
    """JSONL in ASCII: whatever is not, lone surrogates too, is escaped."""
    return "".join(json.dumps(message, ensure_ascii=True) + "\n" for message in messages).encode()


def main(folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for case in [*CALL_CASES, *CONTENT_CASES]:
        name, data = case.__name__, encode(case())
        if name in PLAIN:
            (folder / f"{name}.jsonl").write_bytes(data)
        else:
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:2]))

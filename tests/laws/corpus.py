"""Read our corpus of transcripts; its oddities are listed in `tests/data/README.md`."""

import gzip
import json
from pathlib import Path

from .builders import Message

FOLDER = Path(__file__).parents[1] / "data" / "transcripts"


def names() -> list[str]:
    """The transcripts' names, sorted."""
    return sorted(path.name.split(".")[0] for path in FOLDER.iterdir())


def read(name: str) -> list[Message]:
    """One transcript without its `_` keys."""
    path = next(FOLDER.glob(f"{name}.jsonl*"))
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    rows = [json.loads(line) for line in data.decode().split("\n") if line]
    return [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]

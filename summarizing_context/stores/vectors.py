"""Vectors compared exactly by numpy, whatever keeps them: the extra `vectors`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from summarizing_context.errors import MissingExtraError


def check_numpy() -> None:
    """Raise `MissingExtraError` where numpy is not installed."""
    if find_spec("numpy") is None:
        raise MissingExtraError("vectors", "comparing embeddings needs numpy")


def cosines(rows: Sequence[tuple[int, bytes]], query: bytes) -> dict[int, float]:
    """Of each vector with the query; those of another length are left out."""
    import numpy

    fitting = [(number, vector) for number, vector in rows if len(vector) == len(query)]
    if not fitting:
        return {}
    table = numpy.frombuffer(b"".join(vector for _, vector in fitting), dtype=numpy.float32)
    scores = table.reshape(len(fitting), -1) @ numpy.frombuffer(query, dtype=numpy.float32)
    return {number: float(score) for (number, _), score in zip(fitting, scores, strict=True)}

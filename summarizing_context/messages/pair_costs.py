"""What pairs of neighbouring bytes cost by their classes: `python -m evals.pair_costs --fit` makes such a table.

Pure data, in parts of a token of o200k_base.
"""

from __future__ import annotations

UNIT = 32  # parts of a token

COSTS = {  # by the class of the first byte, for each class of the second as `estimate.NUMBERS` orders them
    "lower": (3, 0, 5, 32, 15, 18, 38, 23, 0, 9, 35, 1),
    "escape": (0, 3, 10, 16, 3, 3, 46, 21, 4, 32, 9, 36),
    "upper": (11, 11, 5, 23, 24, 25, 34, 17, 18, 64, 33, 0),
    "apostrophe": (8, 15, 13, 2, 9, 52, 33, 16, 0, 9, 0, 29),
    "digit": (47, 51, 39, 62, 6, 28, 60, 47, 29, 33, 0, 2),
    "space": (13, 14, 0, 22, 37, 1, 64, 27, 39, 0, 34, 29),
    "newline": (21, 12, 22, 18, 13, 29, 0, 0, 56, 1, 0, 27),
    "sign": (14, 16, 16, 10, 16, 10, 0, 16, 20, 52, 1, 62),
    "opening": (21, 24, 7, 0, 8, 34, 0, 22, 0, 36, 0, 20),
    "backslash": (9, 21, 64, 13, 64, 60, 27, 34, 0, 0, 0, 0),
    "mark": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    "other": (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
}

SELDOM = 23  # a pair of letters that words seldom have

RUNS = (b"-" * 4, b"=" * 4, b"*" * 4, b"#" * 4)

RUN = 2  # what such a run costs, as part of a ruled line

"""Hindsight probes leave out the line numbers of listings."""

from __future__ import annotations

import pytest

from summarizing_context.evaluation.cases.hindsight import without_margins


@pytest.mark.parametrize("mark", ["\t", "→", ":", "|"])
def test_numbers_that_count_the_lines_of_a_listing_are_left_out(mark: str) -> None:
    listing = "".join(f"{number:6}{mark}line of {number + 5000}\n" for number in range(1208, 1212))
    assert (
        without_margins(f"seen:\n{listing}end")
        == "seen:\n" + "".join(f"{mark}line of {number + 5000}\n" for number in range(1208, 1212)) + "end"
    )


@pytest.mark.parametrize(
    "text",
    [
        "1208:def one():\n1309:def two():\n1310:def three():\n1400:end",  # hits of a search
        "1208\tsum\n1209\tcount",  # two rows of a table
        "1208: a\n\n1209: b\n\n1210: c",  # not one below the other
        "no numbers\nat all",
        "",
    ],
)
def test_other_numbers_at_the_beginning_of_lines_stay(text: str) -> None:
    assert without_margins(text) == text

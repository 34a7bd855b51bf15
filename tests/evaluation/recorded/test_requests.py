"""Scrubbing: what it takes out of a text, and that hostile texts cost no more than others."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.cassettes.requests import REDACTED, scrubbed

resource = pytest.importorskip("resource")

PIECES = [
    *("password", "api_key", "x-api-key", "api key", "client-secret", "Authorization", "secret_key"),
    *(":", "=", ": ", '"', "'", " ", "\n", ",", ";", "[", "]", ".", "-", "_", "/", "é", "//"),
    *("a", "1", "abcdefghijkl", "abc1defghijklmnop", "eyJ", "eyJabcdefgh", "eyJhbGciOi.eyJzdWIiOi", "sk-", "bearer "),
]
# What these look for, in the words of one expression each: no text but a short one could be searched with them.
WEB_TOKEN = re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?")
NAMED = re.compile(
    r"\b((?:authorization|x-api-key|api[-_ ]?key|access[-_]?token|auth[-_]?token|client[-_]?secret|secret[-_]?key"
    r"|password)[\"']?\s*[:=]\s*[\"']?)(?=[^\s\"']*\d)[^\s\"'\[\],;]{12,}",
    re.IGNORECASE,
)
HOSTILE = [
    *("password:", "eyJ-", "password:a,1", "password= ", "password:'", "password\t", "api-", "api key"),
    *("bearer ", "basic\t", "a-", "x://u:", "x://u:p", "sk-", "eyJabcdefgh.", "AIza", "-----BEGIN ", "-----END A"),
]
LARGE = 300_000  # characters
SECONDS = 120  # of the processor, for all of them; read from each start to the end, one of them would take hours
CHILD = f"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.cassettes.requests import scrubbed
for piece in {HOSTILE!r}:
    scrubbed((piece * {LARGE})[:{LARGE}])
"""


def test_names_and_web_tokens_are_found_as_one_expression_would_find_them():
    rng = random.Random(7)
    for _ in range(20_000):
        text = "".join(rng.choices(PIECES, k=rng.randrange(1, 14)))
        if "bearer" in text or "sk-" in text:
            continue
        assert scrubbed(text) == NAMED.sub(rf"\1{REDACTED}", WEB_TOKEN.sub(REDACTED, text)), text


def test_a_value_is_taken_out_wherever_a_digit_follows_its_name():
    assert scrubbed("password=abcdefghijklmn,port=80") == f"password={REDACTED},port=80"
    assert scrubbed("password=abcdefghijklmn, port=80") == "password=abcdefghijklmn, port=80"
    assert scrubbed("password:short,1 password=abcdefghijk1") == f"password:short,1 password={REDACTED}"


def test_a_large_hostile_text_is_read_once():
    """In a process that ends when it has used too much of the processor; what else the machine does is not counted."""
    assert subprocess.run([sys.executable, "-c", CHILD], check=False).returncode == 0


def test_a_message_is_scrubbed_whole_so_that_whatever_is_cut_of_it_later_holds_no_part_of_a_key(tmp_path: Path):
    key = "-----BEGIN PRIVATE KEY-----\n" + "kQ7z" * 500 + "\n-----END PRIVATE KEY-----"
    arguments = json.dumps({"path": "a", "text": key, "own": "a word that opens"})
    calls = [{"id": "c1", "type": "function", "function": {"name": "write", "arguments": arguments}}]
    blocks = [{"type": "text", "text": key[:900]}, {"type": "text", "text": key[900:] + " and on"}]
    with Cassette.open(tmp_path / "c.jsonl", "forecast", secrets=["a word that opens"]) as cassette:
        for message in (
            {"role": "assistant", "content": "so", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": f"before {key} behind"},
            {"role": "user", "content": blocks},
        ):
            kept = cassette.scrub(message)
            assert "kQ7z" not in json.dumps(kept)
            assert "that opens" not in json.dumps(kept)
            assert REDACTED in json.dumps(kept)
            assert [kept["role"], kept.get("tool_call_id")] == [message["role"], message.get("tool_call_id")]
        assert cassette.scrub({"role": "user", "content": "no secret"}) == {"role": "user", "content": "no secret"}

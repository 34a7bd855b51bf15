"""Hosts' names of sessions, as a store can keep them."""

from __future__ import annotations

import hashlib
import re

_LONGEST_ID = 200


def session_id_from(host_id: str) -> str:
    """The host's session id in the characters that a session id may have; other hosts' ids stay different."""
    plain = re.sub(r"[^A-Za-z0-9._:-]", "-", host_id)
    if plain == host_id and len(plain) <= _LONGEST_ID:
        return plain
    digest = hashlib.sha256(host_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{plain[: _LONGEST_ID - 13]}.{digest}"

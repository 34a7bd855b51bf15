"""Reading the words of calls and results: arguments by name, patches, exit statuses, refusals, addresses and ids.

Pure, and bounded: of huge texts only the ends are looked at. What they mean for the ledger is said in `reading_calls`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n\\\"]{1,400})(?:\n\*\*\* Move to: ([^\n\\\"]{1,400}))?")
PATCH_VERBS = {"Add": "created", "Update": "edited", "Delete": "deleted"}
_DIFF = re.compile(r"(?:\A|\n)--- ([^\t\n]{1,400})[^\n]{0,100}\n\+\+\+ ([^\t\n]{1,400})")
_DIFF_KEYS = ("patch", "diff", "")
_NOWHERE = "/dev/null"

_PARSED = 1_000_000  # characters of arguments; in larger ones names are looked for at both ends
_ENDS = 4_000  # characters
_VALUES, _DEPTH = 200, 4  # of the arguments of one call
_HEAD = 300  # characters of a result's beginning and end, whose words tell how it went
_ERROR = re.compile(r"\s{0,9}(?:<tool_use_error>|(?:[A-Z]\w{0,30})?[Ee]rror: |Traceback \()")
_REFUSED = re.compile(
    r"(?i)\W{0,3}(?:error|failed|failure|fatal|invalid|cannot|could not|unable to|no such|not found|"
    r"old_str\w{0,4} not|string to replace not|no (?:replacement|changes?) (?:was|were)|"
    r"(?:permission|access) (?:was )?denied|operation not permitted)\b"
)
_DENIED = re.compile(
    r"(?i)\W{0,3}(?:the user (?:does ?n['’]t want|does not want|rejected|denied|declined|cancell?ed|refused)|"
    r"request interrupted|(?:(?:the |this )?(?:tool|call|command|execution|operation|use)[ -]?){1,3} "
    r"(?:was |has been )?(?:cancell?ed|rejected|denied|aborted|interrupted|not executed|not run))\b"
)
_EXIT = re.compile(
    r"(?i)\b(?:exit(?:ed)?[ _]?(?:with )?(?:exit )?(?:code|status)|return[_ ]?code|exit(?=[=:]))"
    r"[\"'\s:=]{1,4}(-?\d{1,5})\b"
)
_TOOK = re.compile(r"\s{0,3}(?:\(\d[\d.]{0,12}\s?m?s\)|in \d[\d.]{0,12}\s?m?s)[ =]{0,80}\Z")
_URL = re.compile(r"https?://[^\s\"'<>`)\]},\\|]{3,400}")
_ID = re.compile(r"#?[A-Za-z0-9][\w#.:@-]{3,63}\Z")
_ID_IN_RESULT = re.compile(
    r"\"(?:\w{0,40}_)?(?:id|number|key|ref|sha)\"\s?:\s?\"?([A-Za-z0-9][\w#.:@-]{2,63})\"?(?=[,}\s])"
)
_NAMED = re.compile(r'"([\w-]{1,40})"\s?:\s?"((?:[^"\\\n]|\\.){1,400})"')
_URLS, _IDS = 4, 8  # of one result or message


def read_arguments(text: str) -> list[tuple[str, str]]:
    """The arguments as names and texts, nested ones too; a text that is no JSON has no name."""
    if len(text) > _PARSED:
        return [(key, value) for part in (text[:_ENDS], text[-_ENDS:]) for key, value in _NAMED.findall(part)]
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return [("", text)]
    found: list[tuple[str, str]] = []
    _flatten("", parsed, found, _DEPTH)
    return found


def _flatten(name: str, value: Any, found: list[tuple[str, str]], depth: int) -> None:
    if len(found) >= _VALUES or depth < 0:
        return
    if isinstance(value, str):
        found.append((name, value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flatten(key, inner, found, depth - 1)
    elif isinstance(value, list):
        for inner in value[:_VALUES]:
            _flatten(name, inner, found, depth - 1)


def patched_files(values: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """(path, operation) of each file of a patch among the arguments."""
    found: list[tuple[str, str]] = []
    for name, text in values:
        if name in _DIFF_KEYS and "+++ " in text:
            found += [_diffed(old.strip(), new.strip()) for old, new in _DIFF.findall(text[:_PARSED])]
        if "*** " not in text:
            continue
        for verb, path, target in PATCHED.findall(text[:_PARSED]):
            moved = target.strip()
            found.append((path.strip(), "moved" if moved else PATCH_VERBS[verb]))
            found += [(moved, "created")] if moved else []
    return found


def _diffed(old: str, new: str) -> tuple[str, str]:
    """What a file's heading in a unified diff does to it."""
    if new == _NOWHERE:
        return old.removeprefix("a/"), "deleted"
    return new.removeprefix("b/"), "created" if old == _NOWHERE else "edited"


def refuses(result: str, *, looks: bool) -> bool:
    """Whether a result says that the call did nothing. What was looked at may itself begin with such words."""
    if _ERROR.match(result[:_HEAD]) or denies(result):
        return True
    if looks:
        return False
    told = _object(result)
    return _REFUSED.match(result[:_HEAD]) is not None if told is None else _reports_failure(told)


def denies(result: str) -> bool:
    """Whether a result says that the call was not even begun: somebody forbade or stopped it."""
    return _DENIED.match(result[:_HEAD]) is not None


def _object(result: str) -> dict[str, Any] | None:
    """A result that is one JSON object."""
    if result.lstrip()[:1] != "{" or len(result) > _PARSED:
        return None
    try:
        told: dict[str, Any] = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return told


def _reports_failure(told: dict[str, Any]) -> bool:
    """Whether an object says so in one of the usual fields, or its `output` does."""
    went_well, failed = told.get("success", told.get("ok")), told.get("is_error", told.get("isError"))
    if went_well is False or failed is True or (went_well is not True and bool(told.get("error"))):
        return True
    inner = told.get("output")
    return isinstance(inner, dict) and _reports_failure(inner)


def exit_code(text: str) -> str:
    """The exit status that a result tells at its beginning or its end; "" if it tells none."""
    for part in (text[:_HEAD], text[_HEAD:][-_HEAD:]):
        if ("xit" in part or "return" in part) and (found := _EXIT.search(part)):
            return found[1]
    return ""


def is_id(value: str) -> bool:
    """Whether an argument is one word with a digit in it, and more than a number."""
    return (
        len(value) <= 64
        and _ID.match(value) is not None
        and any(map(str.isdigit, value))
        and not value.replace(".", "").replace("-", "").replace(":", "").isdigit()
    )


def signature(line: str) -> str:
    """An error's line without the time that it took, which is another one each time."""
    return _TOOK.sub("", line)


def told_ids(text: str) -> list[str]:
    """The ids that a result names as such, the first few."""
    return list(dict.fromkeys(id for id in _ID_IN_RESULT.findall(text) if is_id(id)))[:_IDS]


def told_urls(text: str) -> list[str]:
    """The addresses in a text, the first few."""
    if "://" not in text:
        return []
    found: dict[str, None] = {}
    for match in _URL.finditer(text):
        found[match[0].rstrip(".,;:!?)'")] = None
        if len(found) == _URLS:
            break
    return list(found)


def both_ends(text: str) -> str:
    """A text, or of a huge one its beginning and its end."""
    return text if len(text) <= 2 * _PARSED else f"{text[:_PARSED]}\n{text[-_PARSED:]}"


def one_line(text: str, most: int) -> str:
    """A text on one line of at most so many characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"

"""Every exception of the package; the page *Errors* of the reference draws them as a tree."""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any


class SummarizingContextError(Exception):
    """Base of all errors that this package raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class SettingsError(SummarizingContextError, ValueError):
    """Settings are wrong: `problems` has a sentence for each."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class MessageError(SummarizingContextError, ValueError):
    """Not a message: a mapping with a string role and JSON values. The log is unchanged."""


class BudgetError(SummarizingContextError):
    """No view fits the budget: `rows` has the index and the tokens of the messages that need more.

    These are the leading system rows, or the newest messages if their calls are open and they cannot be shrunk further;
    `what` says which. `required_tokens` are needed, the budget is `budget_tokens`.
    """

    def __init__(
        self,
        required_tokens: int,
        budget_tokens: int,
        rows: Sequence[tuple[int, int]] = (),
        what: str = "leading system rows",
    ) -> None:
        self.required_tokens, self.budget_tokens = required_tokens, budget_tokens
        self.rows, self.what = tuple(rows), what
        listed = ", ".join(f"message {index}: {tokens} tokens" for index, tokens in self.rows[:5])
        listed += ", …" if len(self.rows) > 5 else ""
        super().__init__(
            f"a view needs at least {required_tokens} tokens but the budget is {budget_tokens} "
            f"({f'{what}: {listed}' if listed else what}); raise the budget or shorten these"
        )


class ContextClosedError(SummarizingContextError):
    """The context is closed: its `async with` has ended."""


class WrongEventLoopError(SummarizingContextError):
    """The call came from another event loop than the one in which the context was opened, or from trio."""


class SessionInUseError(SummarizingContextError):
    """Another writer has the session open: process `pid`, if known, and on `host`, if the store serves several."""

    def __init__(self, session_id: str, pid: int | None, host: str | None = None) -> None:
        self.session_id, self.pid, self.host = session_id, pid, host
        holder = (f"process {pid}" if pid is not None else "another process") + (f" on {host}" if host else "")
        super().__init__(
            f"session {session_id!r} is open for writing in {holder}; close it there, "
            "use another session_id, or open it with read_only=True. If that is a proxy, undo and pin in its own "
            "inspector: `summarizing-context proxy status` prints the link"
        )


class StoreError(SummarizingContextError):
    """The store could not be read or written. Acknowledged messages are safe."""


class StoreLockedError(StoreError):
    """Another process holds the file; try again, or end that process."""


class StoreCorruptError(StoreError):
    """The file is damaged or is no store of this package; it stays as it is."""


class DamagedMessageError(StoreCorruptError):
    """A stored message is damaged: `seq`, counted from 0, of `session_id`."""

    def __init__(self, session_id: str, seq: int, store: str) -> None:
        self.session_id, self.seq, self.store = session_id, seq, store
        super().__init__(
            f"{store}: message {seq} of session {session_id!r} is damaged: its bytes are not those that were written. "
            "Put a copy of the store in its place, or write the messages that are whole into a file with "
            "`summarizing-context sessions export`, and `sessions import` that into another store"
        )


class StoreVersionError(StoreError):
    """Another version wrote the store; use that version, or another store."""


class StoreFullError(StoreError):
    """No space is left for the store; free some and call again."""


class StoreReadOnlyError(StoreError):
    """The file or the context is read-only."""


class StoreUnreachableError(StoreError):
    """The database server could not be reached in time. Acknowledged messages are safe."""


class SessionLostError(StoreError):
    """Another host has taken the session; nothing of the call was written."""


class SessionExistsError(StoreError, ValueError):
    """The id of the fork is taken: `session_id`. No fork was made."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        super().__init__(
            f"there is a session {session_id!r} already, so no fork was made; give the fork a session_id that is free, "
            "or open that session to go on with it"
        )


class CheckpointNotFoundError(SummarizingContextError, LookupError):
    """The session has no checkpoint of this id or name."""


class MemoryNotFoundError(SummarizingContextError, LookupError):
    """The project has no memory of this id."""


class NodeNotFoundError(SummarizingContextError, LookupError):
    """The session has no such node, messages or cursor."""


class PinNotFoundError(SummarizingContextError, LookupError):
    """The session has no pin of this id."""


class UndoError(SummarizingContextError):
    """The last activation cannot be undone; the message says why. The view stays as it is."""


class MissingExtraError(SummarizingContextError, ImportError):
    """An optional library is missing; install `extra`."""

    def __init__(self, extra: str, why: str) -> None:
        self.extra, self.why = extra, why
        super().__init__(f"{why}; install it with: pip install 'summarizing-context[{extra}]'")


class SummarizerError(SummarizingContextError):
    """No summary could be made; it is tried again, after `retry_after` seconds if the provider said so."""

    def __init__(self, message: str = "the summarizer failed", *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class SummarizerNotReady(SummarizerError):
    """The breaker, a cap or the host lets no call through now.

    A summarizer may raise it: then nothing has failed, and no call is made before `retry_after` has passed, if known.
    """


class SummarizerTimeout(SummarizerError):
    """The summarizer gave no reply within its time limit."""


class SummarizerRefused(SummarizerError):
    """The reply is no summary: empty, cut off, too long, or not text."""

    usage: object = None  # of the reply, where its provider has told


class SummarizerRateLimited(SummarizerError):
    """The provider asks for fewer calls."""


class PromptError(SummarizingContextError):
    """A prompt file is missing or malformed."""


class TranscriptError(SummarizingContextError, ValueError):
    """A transcript file cannot be read; the message begins with `file:line`."""


class CassetteError(SummarizingContextError, ValueError):
    """Recorded replies cannot be read or kept; the message begins with the file, or `file:line` in it."""


class CassetteMissError(CassetteError):
    """A request has no recorded reply: its messages, prompt, model or limits are new."""


class CassetteLimitError(CassetteError):
    """Recording stopped at a cap on calls or tokens. What was recorded is kept, and not sent again."""


def briefly(value: object, most: int = 40) -> str:
    """Return a value that was refused, as a message shows it."""
    try:
        return repr(value)[:most]
    except Exception:  # an int of thousands of digits, or an object that cannot say what it is
        return f"an unprintable {type(value).__name__}"

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
    """One or more settings are wrong. `problems` holds one readable sentence for each, all at once."""

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class MessageError(SummarizingContextError, ValueError):
    """A message was refused: it is not a mapping with a string role and JSON values only."""


class BudgetError(SummarizingContextError):
    """No lawful view fits: `required_tokens` are needed, the budget is `budget_tokens`.

    Needed by the leading system rows, or, where these fit, by the newest messages if their calls are still open and
    they cannot be shrunk further; `what` says which. `rows` holds the index and the tokens of these messages.
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
            f"({f'{what}: {listed}' if listed else what}); raise the budget or shorten these rows"
        )


class ContextClosedError(SummarizingContextError):
    """The context is closed: its `async with` block has ended."""


class WrongEventLoopError(SummarizingContextError):
    """A context belongs to the asyncio loop in which it was opened; it was called from another one, or under trio."""


class SessionInUseError(SummarizingContextError):
    """Another writer has this session open. `pid` is its process id, or None where it left none; `host` names its
    machine where the store serves several."""

    def __init__(self, session_id: str, pid: int | None, host: str | None = None) -> None:
        self.session_id, self.pid, self.host = session_id, pid, host
        holder = (f"process {pid}" if pid is not None else "another process") + (f" on {host}" if host else "")
        super().__init__(
            f"session {session_id!r} is open for writing in {holder}; close it there, "
            "use another session_id, or open it with read_only=True"
        )


class StoreError(SummarizingContextError):
    """The store could not be read or written. Nothing that was acknowledged is lost."""


class StoreLockedError(StoreError):
    """The file stayed locked by another process; try again, or find out who holds it."""


class StoreCorruptError(StoreError):
    """The file is damaged or is not a store of this package; it was left as it is."""


class DamagedMessageError(StoreCorruptError):
    """A stored message is not what was written: message `seq` of session `session_id`, counted from 0."""

    def __init__(self, session_id: str, seq: int, store: str) -> None:
        self.session_id, self.seq, self.store = session_id, seq, store
        super().__init__(
            f"{store}: message {seq} of session {session_id!r} is damaged: its bytes are not those that were written. "
            "Put a copy of the store in its place, or write the messages that are whole into a file with "
            "`summarizing-context sessions export`, and `sessions import` that into another store"
        )


class StoreVersionError(StoreError):
    """The store has another schema than that of this version; use the version that wrote it, or another store."""


class StoreFullError(StoreError):
    """No space is left for the store; free some and call again."""


class StoreReadOnlyError(StoreError):
    """A write was asked of a file or a context that may only be read."""


class StoreUnreachableError(StoreError):
    """The database server cannot be reached; it was waited for. Nothing that was acknowledged is lost."""


class SessionLostError(StoreError):
    """This host lost its lease of a session, so it writes no more to it; nothing of the call was written."""


class SessionExistsError(StoreError, ValueError):
    """A fork was to get the id of a session that the store has already, `session_id`. No fork was made."""

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
    """The session has no such node, messages or place to read on from."""


class PinNotFoundError(SummarizingContextError, LookupError):
    """The session has no pin of this id."""


class UndoError(SummarizingContextError):
    """The last activation cannot be undone; the message says why. The view stays as it is."""


class MissingExtraError(SummarizingContextError, ImportError):
    """A library that is installed on demand is missing; `extra` names what brings it."""

    def __init__(self, extra: str, why: str) -> None:
        self.extra, self.why = extra, why
        super().__init__(f"{why}; install it with: pip install 'summarizing-context[{extra}]'")


class SummarizerError(SummarizingContextError):
    """A summary could not be made now. The log is safe and it is tried again.

    `retry_after` is the number of seconds after which the provider wants to be asked again, when it said so.
    """

    def __init__(self, message: str = "the summarizer failed", *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class SummarizerNotReady(SummarizerError):
    """The breaker, a cap or the host lets no call through now; `retry_after` says when it may, if that is known.

    A summarizer may raise it: then nothing has failed, and no call is made before `retry_after` has passed.
    """


class SummarizerTimeout(SummarizerError):
    """The summarizer gave no reply within its time limit."""


class SummarizerRefused(SummarizerError):
    """A reply came that cannot serve as a summary: empty, cut off, too long, or not text."""


class SummarizerRateLimited(SummarizerError):
    """The provider asks for fewer calls; `retry_after` says when, if it told."""


class PromptError(SummarizingContextError):
    """A prompt file is missing or malformed."""


class TranscriptError(SummarizingContextError, ValueError):
    """A transcript file cannot be read; the message begins with `file:line`."""


class CassetteError(SummarizingContextError, ValueError):
    """Recorded replies of a model cannot be read or kept; the message begins with the file, and `file:line` in it."""


class CassetteMissError(CassetteError):
    """A request has no recorded reply; its messages, prompt, model or limits are new."""


class CassetteLimitError(CassetteError):
    """Recording has stopped at a cap on calls or tokens. What was recorded is kept, and not sent again."""


def briefly(value: object, most: int = 40) -> str:
    """Return a value that was refused, as a message shows it."""
    try:
        return repr(value)[:most]
    except Exception:  # an int of thousands of digits, or an object that cannot say what it is
        return f"an unprintable {type(value).__name__}"

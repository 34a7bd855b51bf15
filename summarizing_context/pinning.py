"""Pinning by a call: messages and texts that stay in every view, until they are unpinned.

What else is pinned, and how pins are shown, is in `core.pins` and `core.rule_block`.
"""

from __future__ import annotations

from summarizing_context.core.pinned import Pin, PinList, encode_pins
from summarizing_context.errors import PinNotFoundError, SettingsError, briefly
from summarizing_context.session import Session

_LONGEST = 2_000  # characters of a pinned text


class Pinning:
    """The pins of one session. All methods belong to its event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def pin(self, what: int | str) -> str:
        """Pin a message or a text; the id of the pin."""
        timeline = self._session.parts.timeline
        if isinstance(what, str):
            _check_text(what)
            async with self._session.changing:
                changed, id = timeline.pinned.with_text(what)
                await self._keep(changed)
            return id
        if isinstance(what, bool) or not isinstance(what, int):
            raise SettingsError(f"what is pinned is a message's index (int) or a text (str), not {type(what).__name__}")
        async with self._session.changing:
            if not 0 <= what < len(timeline):
                held = f"the log has {len(timeline)}, from 0 on"
                raise SettingsError(f"there is no message {briefly(what)} to pin; {held}")
            changed, id = timeline.pinned.with_message(what, timeline.entries[what].facts.content)
            await self._keep(changed)
        return id

    async def unpin(self, id: str) -> None:
        """Give up a pin."""
        if not isinstance(id, str):
            raise SettingsError(f"a pin's id is a string, as pin() and pins() tell it; not {type(id).__name__}")
        async with self._session.changing:
            changed = self._session.parts.timeline.pinned.without(id)
            if changed is None:
                has = ", ".join(pin.id for pin in self.listed()) or "none"
                raise PinNotFoundError(f"the session has no pin of this id; it has {has:.200}")
            await self._keep(changed)

    def listed(self) -> list[Pin]:
        """All pins, oldest first."""
        return list(self._session.parts.timeline.pinned.pins)

    async def _keep(self, changed: PinList) -> None:
        """Commit first, then show it: with the next view, whose prefix ends before the first pin that changes."""
        parts = self._session.parts

        def committed() -> None:
            parts.timeline.pinned = changed
            parts.viewer.pin_anew()

        if changed != parts.timeline.pinned:
            await parts.store.pins.save(self._session.id, encode_pins(changed), committed)


def _check_text(text: str) -> None:
    if not text.strip() or len(text) > _LONGEST:
        raise SettingsError(f"a pinned text has 1-{_LONGEST:,} characters; pin the message it stands in by its index")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SettingsError("a pinned text holds half a character (a lone surrogate); leave it out") from None

"""What a session tells: events to an observer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from summarizing_context.concurrency import Events

logger = logging.getLogger(__name__)

Notify = Callable[[str, dict[str, Any]], None]


def make_notify(events: Events | None) -> Notify:
    """What hands an event to the observer; a fault of the observer costs nothing but the event."""

    def notify(name: str, data: dict[str, Any]) -> None:
        if events is not None:
            try:
                events.emit(name, data)
            except Exception as error:
                logger.warning("an observer failed", extra={"event": name, "cause": type(error).__name__})

    return notify

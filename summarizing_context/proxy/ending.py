"""The end of the proxy's process: by itself, or at a deadline that nothing in it can hold up.

Open streams get half a second, and closing the sessions what is left. Then the process ends as it is. Nothing is lost
by that: what was acknowledged is in the store, and the rest stands in the client's next request.
"""

from __future__ import annotations

import logging
import os
import threading
import time

logger = logging.getLogger("summarizing_context.proxy")

STREAMS_END_WITHIN = 0.5  # seconds, after which open streams are cut off

PROCESS_ENDS_WITHIN = 1.6  # seconds after it was told to


def end_process_in_time(status: int = 0) -> None:
    """Let this process end by itself, with this exit status; what is left of it at the deadline ends at once."""
    threading.Thread(target=_end_at_deadline, args=(status,), name="deadline", daemon=True).start()


def _end_at_deadline(status: int) -> None:
    time.sleep(PROCESS_ENDS_WITHIN)
    logger.warning("the proxy ended before all was closed; what is missing comes with the next requests")
    os._exit(status)

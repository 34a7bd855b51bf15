"""Transcripts: sessions that this package, other tools and providers wrote to files.

`read(path)` yields each session of a file as a `Transcript`, known by its content. A context validates the messages.
"""

from summarizing_context.transcripts.base import AUTO, Transcript
from summarizing_context.transcripts.formats import FORMATS, find_transcripts, read, read_named, read_session

__all__ = ["AUTO", "FORMATS", "Transcript", "find_transcripts", "read", "read_named", "read_session"]

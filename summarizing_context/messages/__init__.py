"""Messages as providers shape them: validation, reading, token counts, rendering and truncation.

Pure. This room is the only one that knows the shapes of messages. It knows no log, no store and no summarizer.
"""

"""Views: what one request sends, and when it begins to cover more of the past.

`builder` is the door; `planner` decides about an activation; the sections, the header and the tail are its parts.
"""

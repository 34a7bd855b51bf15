"""Views: what one request sends, and when it begins to cover more of the past.

`builder` is the door: it brings a view up to date, has `planner` decide, and makes the change. A plan is made of a room
and a tail (`view`), where long messages are cut, and of what stands before it (`header`).
"""

"""A Warp upstream that answers by a script. It shares nothing with the dialect: its own wire format, its own tables.

`wire` reads and writes protobuf's fields, `messages` knows which field is which, `frames` puts events on a stream,
`state` adds events up as Warp's own client does, `story` says events, `scripts` holds whole answers, `agent` is an
agent of three turns, and `server` listens on the loopback interface.
"""

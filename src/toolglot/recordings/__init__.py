"""Recorded exchanges: their form on disk, and what can be done with one without a network.

An exchange is one file of JSON lines, written as things happen: what the client asked, what each upstream was asked and
answered, what the client got, and the receipt. `format.py` is the form; `read.py` reads it, also where the end is
missing because the process died.

What stands in this folder itself is pure: bytes and values in, bytes and values out. Two folders below it are not:

- `writing/` writes recordings, in a thread of its own, to a disk that may be full;
- `rerun/` runs the gateway again, with what was recorded in the place of upstreams, tool servers and the store.
"""

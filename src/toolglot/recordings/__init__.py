"""Recorded exchanges: their file format, and operations on them without a network. An exchange is one file of JSON
lines in chronological order: the client's request, each upstream's request and answer, the client's answer, and the
receipt. `format.py` defines the format; `read.py` reads it, even if the end is missing because the process died.

The modules of this folder itself are pure: bytes and values in, bytes and values out. Two subfolders are not:

- `writing/` writes recordings, in a separate thread, to a disk that may be full;
- `rerun/` runs the gateway again, with the recording in place of upstreams, tool servers and the store.
"""

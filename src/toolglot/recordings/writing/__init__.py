"""Recordings on their way to the disk: `recorder.py` is the thread that writes them, `folder.py` the place."""

"""Run a recorded exchange again with today's gateway, inside the process.

`run.py` runs one and compares, `replay_setup.py` builds the gateway, with the recorded answers in place of its
upstreams, `servers.py` returns the recorded tool results, and `recorded_store.py` returns what the store had.
"""

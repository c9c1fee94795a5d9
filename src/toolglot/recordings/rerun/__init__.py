"""Run a recorded exchange again with the current gateway, inside this process.

`run.py` runs one and compares, `replay_setup.py` builds the gateway, with the recorded answers in place of its
upstreams, `servers.py` returns the recorded tool results, and `recorded_store.py` returns the store's data.
"""

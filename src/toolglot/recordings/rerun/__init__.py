"""A recorded exchange, run again by today's gateway inside the process.

`run.py` runs one and compares, `scene.py` builds the gateway, with the recorded answers in the place of its upstreams,
`servers.py` gives the recorded results of tools, and `stored.py` what the store had.
"""

"""Recordings as an upstream: answers come from recordings, without a network, a key or a model.

`matching.py` decides when two requests are the same, `index.py` finds the recording for a request, `reply.py` replays
its answer, `transport.py` is the interface, `unmatched.py` reports the nearest recording if none matches, and
`labels.py` carries the time and the id that the gateway itself set in the recorded answer.
"""

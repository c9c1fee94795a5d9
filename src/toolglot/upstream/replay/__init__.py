"""Recordings as an upstream: recorded answers are given again, without a network, a key or a model.

`matching.py` decides when two requests are the same, `index.py` finds the recording for a request, `reply.py` replays
its answer, `transport.py` is the interface, `unmatched.py` reports the nearest recording if none matches, and
`labels.py` carries the time and the id that the gateway itself put on the recorded answer.
"""

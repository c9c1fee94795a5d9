"""Recordings as an upstream: what was answered once is answered again, without a network, a key or a model.

`matching.py` says when two requests are the same, `index.py` finds what was recorded for one, `reply.py` gives it again
as it came, `transport.py` is the way there, `unmatched.py` says what is nearest where nothing was recorded, and
`labels.py` carries the time and the id that the gateway put on the recorded answer itself.
"""

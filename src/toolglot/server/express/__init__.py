"""The express lane: plain requests cross the gateway in callbacks, from one socket to the other.

A request takes it when everything about it is plain: a lane is open for its client's dialect and its model
(`lanes.py`), its body can be translated the direct way (`toolglot.direct`), and a connection to the upstream is idle.
Whatever is not so goes the general way through `server/app.py`, and so does a request whose answer turns out not to be
plain: with the upstream's reply in hand (`handing.py`), so that nobody is ever asked twice. A client cannot tell the
two ways apart.

    guarded.py ─ a whole request ─▶ entry.py ─▶ crossing.py ◀─▶ upstream/http_client
                                       │            │
                                       └── or ──────┴─▶ the general way
"""

"""Parley, an API that does not exist: what toolglot knows of it before anybody uses it.

A gateway imports this module when it starts, so it imports nothing but the manifest.
"""

from toolglot.manifest import Manifest, Route

MANIFEST = Manifest(
    name="parley",
    record="toolglot_parley.dialect:PARLEY",
    client="Parley     url      = {url}/parley",
    routes=(Route("POST", "/parley/talk", "generate"),),
)

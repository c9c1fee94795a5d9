"""Upstreams: the servers that answer requests. A shell: HTTP, credentials, retries, and the demo upstream, which needs
none of them."""

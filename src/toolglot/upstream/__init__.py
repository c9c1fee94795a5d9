"""Upstreams: where answers come from. A shell: HTTP, credentials, retries, and the demo upstream that needs neither."""

"""The gateway: an ASGI app that speaks every dialect to clients and any dialect to upstreams."""

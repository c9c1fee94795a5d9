"""The ways to an upstream over the network, measured in the whole gateway: `python -m bench.transports`."""

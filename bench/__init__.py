"""How long the core takes: `python -m bench`."""

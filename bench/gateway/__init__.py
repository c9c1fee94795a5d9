"""The gateway beside others, with a fast upstream behind and many clients in front: `python -m bench`."""

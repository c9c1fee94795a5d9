"""The answer to a request: the flow that decides what happens next, the driver that does it, and features around it."""

"""Answers a request: the flow decides what happens next, the driver does it, and features wrap them."""

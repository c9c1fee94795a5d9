"""Answer a request: the flow decides the next step, the driver performs it, and features wrap the flow."""

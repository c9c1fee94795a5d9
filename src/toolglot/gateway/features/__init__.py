"""Features are generators around an answer flow. One that is off is not there."""

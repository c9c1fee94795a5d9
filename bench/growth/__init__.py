"""What the gateway costs as the work grows, and what others notice of it."""

"""What outlives a request. SQLite by default."""

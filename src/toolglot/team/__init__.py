"""Keys, limits, budgets and spend of a team that shares one gateway, or several with one database.

Off unless `team.enabled` is set. `keys.py` defines the records, `sql.py` the database operations, and `directory.py`
the keys that this process has loaded.
"""

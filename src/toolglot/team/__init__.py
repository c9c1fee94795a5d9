"""Keys, limits, budgets and spend of a team that shares one gateway, or several with one database.

Off unless `team.enabled` is set. `keys.py` has the records, `sql.py` what is stored, `directory.py` the keys that this
process knows.
"""

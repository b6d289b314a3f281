"""Commands for the upkeep of tables.

Each calls a job of the engine and shows what it did. No Spark and no terminal may enter.
"""

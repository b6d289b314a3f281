"""Commands that compare versions of a table.

Each asks the engine and prints what it finds. No Spark and no terminal may enter.
"""

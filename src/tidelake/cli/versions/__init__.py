"""Commands that look at tables and their versions, and that keep and leave versions.

Each asks the engine and prints what it finds or did. No Spark and no terminal may enter.
"""

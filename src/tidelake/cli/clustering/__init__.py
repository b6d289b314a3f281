"""The command that sorts rows, and its arguments.

It asks the engine and prints what was done. No Spark and no terminal may enter.
"""

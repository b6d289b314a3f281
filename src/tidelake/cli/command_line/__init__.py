"""What a command line gives: options, tables, versions, keys; and what is wrong with it.

No command, no Spark and no terminal may enter.
"""

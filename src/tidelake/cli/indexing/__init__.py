"""The command for the indexes of data files.

It calls a method of the table and shows what it did. No Spark may enter.
"""

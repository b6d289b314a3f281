"""How the schema of a target follows its source: its creation, and each change.

Values in, values out: nothing is read, written or asked. How a source is read may not enter.
"""

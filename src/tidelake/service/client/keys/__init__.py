"""Keys: as callers give them, where they go, and as they are sent.

One key takes plain Python all the way, many go by Arrow columns; the rules are the same. No
connection may enter.
"""

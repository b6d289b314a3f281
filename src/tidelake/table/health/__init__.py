"""The health of a table: what slows it, whether its files are whole, and what would mend them.

Nothing here writes: each finding names the call that does.
"""

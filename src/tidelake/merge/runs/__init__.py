"""Sorted runs: read side by side in bounded memory, grouped by key, handed to an engine.

It also spills what does not fit and finds sections of runs that overlap. What a key's row becomes
is decided in :mod:`tidelake.merge.engines`, not here.
"""

"""Sorted runs: read in parallel in bounded memory, grouped by key, passed to an engine.

It also spills rows beyond memory and finds sections of runs that overlap. The merged row of a key
is decided in :mod:`tidelake.merge.engines`, not here.
"""

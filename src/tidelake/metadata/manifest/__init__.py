"""Manifests and manifest lists: the data files that a snapshot added, deleted and has.

Entries are columns (:class:`EntryTable`), read through a cache of bounded size. No data file is
opened here.
"""

"""Manifests and manifest lists: which data files a snapshot added, deleted and has.

Entries are columns (:class:`EntryTable`), read through a cache of bounded size. No data file is
opened here.
"""

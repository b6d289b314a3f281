"""HDFS as a FileIO, by a client that needs no Java.

A name node decides each rename under one lock. All promises of :class:`tidelake.fileio.FileIO` rest
on that: what is published is renamed into its place, out of the directory that is held.
"""

from tidelake.fileio.hdfs.file_io import HdfsFileIO
from tidelake.fileio.hdfs.settings import HdfsSettings, parse_hdfs_settings, user_name

__all__ = ["HdfsFileIO", "HdfsSettings", "parse_hdfs_settings", "user_name"]

"""MySQL and MariaDB as a source: their binlog read by our own loop, first copies by SELECT.

PyMySQL makes connections; events and rows are decoded here, by column.
"""

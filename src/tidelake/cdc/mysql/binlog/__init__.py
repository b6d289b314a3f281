"""The bytes of a binlog: events, table maps, rows by column. No connection may enter."""

"""Turns what is known of tables into HTML: templates, style and script, charts.

Everything is escaped by the library of templates. No table, no clock and no socket may enter: the
same values give the same page, byte by byte, which is what its ETag is made of.
"""

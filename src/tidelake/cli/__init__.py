"""The program ``tidelake``: statements from a terminal, a file or a pipe.

It reads the command line, runs statements one by one and starts Spark only where one needs it.
Nothing may import it; libraries of its extra are loaded through ``_optional``.
"""

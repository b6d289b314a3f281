"""A query service of local processes: the address server here, each executor in its own process.

Processes are started, watched and ended here, and nothing else. No lookup, and no protocol, may
enter.
"""

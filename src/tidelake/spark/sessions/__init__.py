"""Spark sessions: the JVM, the settings, the log output, cancellation.

It starts a session or adopts the one that runs. No table may enter.
"""

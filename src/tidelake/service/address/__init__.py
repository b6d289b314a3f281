"""The address server: follows tables, knows executors, tells clients who owns which bucket.

No lookup file is opened here, and no row is read.
"""

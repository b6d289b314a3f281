"""Servers that tests start in their own process: an S3, and whatever else speaks HTTP."""

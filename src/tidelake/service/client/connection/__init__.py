"""Connections to servers: channels, TLS and token, and what a failed call means.

Nothing here knows keys or rows. Which call is made, and when again, is decided above.
"""

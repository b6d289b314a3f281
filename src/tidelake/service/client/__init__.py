"""The client: finds the service of a table, sends keys to their executors, tries again.

:func:`tidelake.lookup_client` gives a :class:`TableQuery` for threads,
:func:`tidelake.lookup_client_async` one for coroutines. Both take the same steps (``steps``), which
do no waiting and no calls themselves. Servers may not enter: the client knows them by the protocol
alone. Nothing here is imported before a client is opened, because gRPC may not be installed.
"""

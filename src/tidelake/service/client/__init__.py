"""The client: finds the service of a table, sends keys to their executors, tries again.

:func:`tidelake.lookup_client` gives a :class:`TableQuery` for threads,
:func:`tidelake.lookup_client_async` an :class:`AsyncTableQuery` for coroutines. Both are thin faces
of one ``QueryClient``, which is written as coroutines and leaves waiting to its caller
(``connection.caller``). Servers may not enter: the client knows them by the protocol alone. Nothing
here is imported before a client is opened, because gRPC may not be installed.
"""

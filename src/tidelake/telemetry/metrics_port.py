"""A port on which Prometheus asks for metrics, made of what a collector says at that moment."""

from __future__ import annotations

from types import ModuleType

from tidelake.errors import StorageError

LOOPBACK = "127.0.0.1"
"""This machine alone: metrics are not guarded."""


class MetricsPort:
    """Answers ``GET /metrics`` on a port, until it is closed.

    Parameters
    ----------
    library : module
        ``prometheus_client``.
    collector : object
        A collector of the library; called by the server's threads.
    port : int
        0 takes a free one.
    option : str
        What chooses the port, for the error.

    Raises
    ------
    StorageError
        The port is taken.
    """

    def __init__(
        self,
        library: ModuleType,
        collector: object,
        *,
        port: int,
        host: str = LOOPBACK,
        option: str = "metrics port",
    ) -> None:
        registry = library.CollectorRegistry()
        registry.register(collector)
        try:
            self._server, self._thread = library.start_http_server(port, host, registry)
        except OSError as error:
            message = (
                f"Metrics cannot be served on {host}:{port} ({error.strerror}): choose another"
                f" {option}; 0 takes a free one."
            )
            raise StorageError(message, kind="port_taken", port=port) from error

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop listening. Does nothing twice."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

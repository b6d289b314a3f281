"""How a service is started: what ``tidelake.serve`` and ``tl.serve`` are given, as one value.

:meth:`ServeOptions.address_server` starts the address server, and :meth:`ServeOptions.executors`
says what each executor needs to join it. Where executors run is left to the caller.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.engine.tables import Catalog
from tidelake.errors import InvalidInputError
from tidelake.options import option_texts
from tidelake.service.address.address_server import AddressServer
from tidelake.service.address.security import LOOPBACK, Security, host_of
from tidelake.service.executor.config import ExecutorConfig, Limits

PARALLELISM_MAX = 1_024
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What a caller of ``serve`` chooses.

    Parameters
    ----------
    bind : str
        Where to listen: a host, or ``host:port`` of the address server.
    directory : str, optional
        Where executors keep lookup files; by default in their machine's temporary files.
    memory : int or str, optional
        What each executor may hold to build lookup files.
    catalog_options, storage : mapping
        With which executors open the catalog; not shown.
    secret : str
        Known to the processes of this service only.
    """

    parallelism: int = 2
    bind: str = LOOPBACK
    security: Security = field(default_factory=Security)
    limits: Limits = field(default_factory=Limits)
    directory: str | None = None
    memory: int | str | None = None
    catalog_options: Mapping[str, object] = field(default_factory=dict, repr=False)
    storage: Mapping[str, object] = field(default_factory=dict, repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(SECRET_BYTES), repr=False)

    def check(self, tables: object) -> None:
        """Refuse tables that are not a list, and a number of executors out of range.

        Raises
        ------
        InvalidInputError
            One of the two is wrong.
        """
        count: object = self.parallelism
        is_number = isinstance(count, int) and not isinstance(count, bool)
        if not is_number or not 1 <= self.parallelism <= PARALLELISM_MAX:
            message = f"parallelism is {count!r} but must be from 1 to {PARALLELISM_MAX}."
            raise InvalidInputError(message, kind="service_parallelism")
        if isinstance(tables, str) or not isinstance(tables, Sequence):
            message = f"Give the tables as a list of names, such as ['db.t'], not {tables!r}."
            raise InvalidInputError(message, kind="service_table")

    def address_server(self, catalog: Catalog, tables: Sequence[str]) -> AddressServer:
        """Start the address server.

        Raises
        ------
        ConflictError
            A table is served by a service that answers.
        NotFoundError, InvalidInputError
            A table does not exist or cannot be served, or the server may not listen there.
        """
        return AddressServer(
            catalog,
            tables,
            executors_count=self.parallelism,
            secret=self.secret,
            bind=self.bind,
            security=self.security,
        )

    def executors(self, server: AddressServer) -> ExecutorConfig:
        """What each executor needs; index and attempt are those of the first one."""
        catalog = server.catalog
        return ExecutorConfig(
            address=server.address,
            service_id=server.service_id,
            secret=self.secret,
            warehouse=catalog.warehouse if catalog.metastore.is_served else catalog.uri,
            index=0,
            executors_count=self.parallelism,
            bind=host_of(self.bind),
            security=self.security,
            limits=self.limits,
            directory=self.directory,
            memory=self.memory,
            catalog_options=_without_warehouse(self.catalog_options),
            storage=option_texts(self.storage),
        )


def _without_warehouse(given: Mapping[str, object]) -> dict[str, str]:
    """Catalog options as texts; the warehouse is told by itself."""
    return {key: text for key, text in option_texts(given).items() if key != "warehouse"}

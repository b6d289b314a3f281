"""What runs in a task of Spark's for a query service: one executor, until it is asked to stop.

It is sent by reference, so the machines of executors need this package with its extra ``service``.
gRPC is loaded here, in the Python process of the task: it does not survive a fork.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidelake.engine.storage import SentSecrets
from tidelake.engine.tables import Catalog
from tidelake.service.executor.config import ExecutorConfig
from tidelake.service.executor.executor import run_executor


@dataclass(frozen=True, slots=True)
class ExecutorTask:
    """Runs an executor; picklable.

    Parameters
    ----------
    config : ExecutorConfig
        The settings of all executors of the service, without its secret; index and attempt are
        those of the task.
    catalog : Catalog
        The warehouse, for reading; a REST catalog's token goes the way of all secrets.
    secrets : SentSecrets
        The service's ``secret``.
    """

    config: ExecutorConfig
    catalog: Catalog
    secrets: SentSecrets

    @classmethod
    def of(cls, config: ExecutorConfig, catalog: Catalog) -> ExecutorTask:
        """Part the secret from the settings: it goes its own way, as those of the storage do."""
        sent = SentSecrets({"secret": config.secret})
        return cls(replace(config, secret=""), catalog.for_reading(), sent)

    def __call__(self, index: int, attempt: int) -> str:
        """Serve until asked to stop; why it ended."""
        secret = self.secrets.reveal()["secret"]
        config = replace(self.config, index=index, attempt=attempt, secret=secret)
        return run_executor(config, catalog=self.catalog).reason

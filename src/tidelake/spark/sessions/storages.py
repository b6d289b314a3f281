"""Which storages a warehouse of Spark may lie in."""

from __future__ import annotations

from tidelake.errors import UnsupportedError

__all__ = ["check_storage"]

UNTRIED = "hdfs:"


def check_storage(warehouse: str) -> None:
    """Refuse a warehouse in HDFS, which nobody tried from Spark.

    Raises
    ------
    UnsupportedError
        It is in HDFS.

    Examples
    --------
    >>> check_storage("hdfs://nn:8020/house")
    Traceback (most recent call last):
    tidelake.errors.UnsupportedError: Spark does not reach hdfs://nn:8020/house yet: ...
    """
    if warehouse.startswith(UNTRIED):
        message = (
            f"Spark does not reach {warehouse} yet: use it without Spark (tidelake.open), or put"
            " the warehouse on a shared mount or in an object store."
        )
        raise UnsupportedError(message, kind="storage_scheme", scheme="hdfs")

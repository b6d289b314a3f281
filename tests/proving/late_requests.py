"""The schedules of :mod:`proving.late_puts` on a store that is reached over HTTP.

A proxy before the store remembers each PUT of a snapshot, a hint, a tag and a data file as it was
sent, and sends it again at the steps that the schedule draws. The store's own rules decide what
becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from servers.late_proxy import LateProxy

from proving import late_puts
from tidelake.errors import TidelakeError
from tidelake.fileio.location import parse_location
from tidelake.fileio.object_store import ObjectStoreFileIO, parse_settings
from tidelake.telemetry import Env

HINTS = ("/snapshot/LATEST", "/snapshot/EARLIEST")
KEPT = ("/tag/", "/bucket-0/")


class RemoteStore(late_puts.Interrupted, ObjectStoreFileIO):
    """A bucket behind a proxy."""

    def __init__(self, proxy: LateProxy, bucket: str, storage: Mapping[str, str]) -> None:
        place = parse_location(f"s3://{bucket}/warehouse")
        settings = parse_settings("s3", {**storage, "s3.endpoint": proxy.url})
        super().__init__(place, settings, Env.seeded(1))
        self.sent = proxy.sent
        self.sent.clear()
        proxy.wants = self._wants

    def _wants(self, target: str) -> bool:
        named = HINTS if self.delivers_hints else ("/snapshot/snapshot-",)
        return any(part in target for part in (*KEPT, *named))


def check_schedule(seed: int, proxy: LateProxy, bucket: str, storage: Mapping[str, str]) -> int:
    """One schedule; how many requests arrived late.

    Parameters
    ----------
    seed : int
        Of the schedule; the same as in memory.
    proxy : LateProxy
        Before the store.
    bucket : str
        An empty one.
    storage : mapping of str to str
        The keys of the store.
    """
    run = late_puts.Run(seed, RemoteStore(proxy, bucket, storage))
    try:
        run.play()
    except (AssertionError, TidelakeError) as error:
        steps = "\n".join(run.said)
        raise AssertionError(f"schedule {seed} lost something: {error!r}\n{steps}") from error
    return run.late

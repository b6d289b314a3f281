"""Tests a place: that its bucket answers, and before the first write that it is safe.

Writing needs a store that refuses the second of two conditional puts, keeps the first one's bytes,
and shows them at once to a read and to a listing. Some stores that speak S3 ignore the condition
and answer 200. That is found here, by five requests on a name of its own beside the tables, before
anything else is written. The name is in a directory of its own, so that a listing of it is short
however much the warehouse holds.
"""

from __future__ import annotations

from tidelake.errors import NotFoundError, StorageRefusedError
from tidelake.fileio.object_store.client import Clients
from tidelake.fileio.object_store.errors import NO_CONDITIONS, Bucket, translated
from tidelake.fileio.object_store.publish import FIRST_WAIT_MS, TRIES_MAX, ObjectPublisher

PROBE_PREFIX = ".tidelake-probe-"
PROBE_NAME = "probe"


def check_answers(clients: Clients, bucket: Bucket, root: str) -> None:
    """Find out whether the bucket is there and speaks as a store does.

    Raises
    ------
    NotFoundError, StorageError
        It is missing, or does not answer as it should.
    """
    obstore = clients.calls
    probe = f"{root.rstrip('/')}/{PROBE_PREFIX}none"
    try:
        # first a listing: the answer to HEAD has no body, which would say what is wrong
        next(iter(obstore.list(clients.steady, probe[1:], chunk_size=1)), None)
    except FileNotFoundError as error:
        message = f"The bucket {bucket.at} does not exist: create it, or correct its name."
        raise NotFoundError(message, kind="bucket_not_found", path=root) from bucket.cause(error)
    except (obstore.exceptions.BaseError, OSError) as error:
        raise translated(error, bucket, root, "open") from bucket.cause(error)
    try:
        # a page for people would have passed for an empty listing
        obstore.head(clients.steady, probe[1:])
    except FileNotFoundError:
        return
    except (obstore.exceptions.BaseError, OSError) as error:
        raise translated(error, bucket, root, "open") from bucket.cause(error)
    message = f"{bucket.at} does not answer as an object store does: check the endpoint."
    raise StorageRefusedError(message, kind="not_a_store", path=root)


def check_safe(publisher: ObjectPublisher, probe: str, *, has_lock: bool = False) -> bool:
    """Prove that conditional puts work; with a lock, find out whether they do.

    Parameters
    ----------
    probe : str
        A path of its own for this, which does not exist.
    has_lock : bool
        Whether a lock may take the place of conditions.

    Returns
    -------
    bool
        Whether conditional puts work.

    Raises
    ------
    StorageRefusedError
        The place is not safe; nothing was written but the probe, and that is deleted.
    """
    bucket = publisher.bucket
    has_conditions = _is_put(publisher, probe, has_lock=has_lock)
    try:
        problem, written = "", b"first"
        if has_conditions and not _is_refused(publisher, probe):
            has_conditions, written = False, b"second"
            if not has_lock:
                problem = "the second of two conditional writes of one name succeeded too"
        problem = problem or _wrong_read(publisher, probe, written)
    finally:
        _delete(publisher.clients, probe)
    if problem:
        why = NO_CONDITIONS.format(at=bucket.at) if not has_lock else "Use another store."
        message = f"{bucket.at} is not safe to write to: {problem}. {why}"
        raise StorageRefusedError(message, kind="store_not_safe", path=probe)
    return has_conditions


def _is_put(publisher: ObjectPublisher, probe: str, *, has_lock: bool) -> bool:
    """Write the probe; False if the store takes no condition, and a lock takes its place."""
    try:
        publisher.put_if_absent(probe, b"first", verb="write")
    except StorageRefusedError as error:
        if not has_lock or error.kind != "store_not_safe":
            raise
    else:
        return True
    publisher.put_own(probe, b"first")
    return False


def _wrong_read(publisher: ObjectPublisher, probe: str, written: bytes) -> str:
    """What is wrong with reads; empty if they show what was written last."""
    clients, bucket = publisher.clients, publisher.bucket
    obstore = clients.calls
    try:
        if bytes(obstore.get(clients.steady, probe[1:]).bytes()) != written:
            return "a read does not show what was written last"
        listed = obstore.list_with_delimiter(clients.steady, probe[1:].rpartition("/")[0])
    except (obstore.exceptions.BaseError, OSError) as error:
        raise translated(error, bucket, probe, "read") from bucket.cause(error)
    if probe[1:] not in {entry["path"] for entry in listed["objects"]}:
        return "an object that was written is not in the listing"
    return ""


def _is_refused(publisher: ObjectPublisher, probe: str) -> bool:
    """Whether the store refuses a second conditional put, and for that reason."""
    obstore = publisher.clients.calls
    conditions = (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError)
    for attempt in range(TRIES_MAX):
        if attempt:
            publisher.clock.sleep_ms(FIRST_WAIT_MS * 2**attempt)
        try:
            obstore.put(
                publisher.clients.once, probe[1:], b"second", mode="create", use_multipart=False
            )
        except conditions:
            return True
        except (obstore.exceptions.BaseError, OSError) as error:
            failure = error
        else:
            return False
    bucket = publisher.bucket
    raise translated(failure, bucket, probe, "write") from bucket.cause(failure)


def _delete(clients: Clients, probe: str) -> None:
    obstore = clients.calls
    try:
        obstore.delete(clients.steady, probe[1:])
    except (obstore.exceptions.BaseError, OSError):
        return  # a few bytes under a hidden name

"""A bucket as a :class:`~tidelake.fileio.FileIO`: S3, Google Cloud Storage, Azure.

What differs from a file system, and how the promises are kept:

========================  =====================================================================
there are no directories  a directory is a prefix of keys. :meth:`make_dirs` makes an empty one
                          visible by a hidden object in it, which no listing shows
an open directory is its  so a put into it cannot notice that the table was dropped and created
path                      again at that moment; a commit checks that before and after
no rename                 :meth:`move_dir` is refused
nothing to sync           a put that was answered is durable, its name too
a name is checked at the  ``open_output`` sends nothing; a small file is put on the condition that
end                       its name is free, a large one looks before its first part
========================  =====================================================================

Reads, listings and deletes are sent again by the client; conditional puts are not
(:mod:`tidelake.fileio.object_store.publish`). S3, GCS, Azure and MinIO show each write to every
later read and listing; nothing here waits for one that does not.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from tidelake.errors import StorageError, StorageRefusedError, TidelakeError, UnsupportedError
from tidelake.fileio import _optional
from tidelake.fileio.file_io import (
    SMALL_FILE_BYTES_MAX,
    ByteRange,
    FileStatus,
    OpenDirectory,
    PathDirectory,
    check_path,
    check_range,
    dir_missing,
    file_missing,
    file_too_large,
    is_expected,
    name_taken,
    parent_of,
    range_missing,
)
from tidelake.fileio.files import TAIL_BYTES, open_tailed
from tidelake.fileio.location import Location
from tidelake.fileio.object_store.client import Clients, open_clients
from tidelake.fileio.object_store.credentials import CredentialSource
from tidelake.fileio.object_store.errors import Bucket, refusal_of, translated
from tidelake.fileio.object_store.locked import LockedPublisher, PutLock
from tidelake.fileio.object_store.output import ObjectOutputFile
from tidelake.fileio.object_store.probe import PROBE_NAME, PROBE_PREFIX, check_answers, check_safe
from tidelake.fileio.object_store.publish import ObjectPublisher
from tidelake.fileio.object_store.reused_name import ReusedName, StoreTime
from tidelake.fileio.object_store.settings import StoreSettings
from tidelake.fileio.object_store.whole_listing import (
    WHOLE_TRIES_MAX,
    ends_with,
    last_of_full_pages,
)
from tidelake.telemetry import Env, PerProcess

DIRECTORY_MARKER = ".tidelake-directory"
"""The hidden object that makes an empty directory visible."""
DELETE_PASSES = 10
"""Listings of a directory into which others write while it is deleted."""
DELETE_FAILURES_MAX = 3
"""Bulk deletes of a directory that may fail, the last one with an error."""
DELETE_WAIT_MS = 200
COPY_BYTES_MAX = 5 << 30
"""The largest object that S3 copies by one request."""
BROKEN_ANSWERS_MAX = 3
"""Answers to one question that may break off before that is an error."""
BROKEN_ANSWER_WAIT_MS = 50
T = TypeVar("T")
_STORE_KEYS = ("endpoint", "account-name", "profile", "proxy")
ObjectIdentity = tuple[str, str | None, object]
SCHEMA_FILE = "/schema/schema-"
"""Part of each key that makes a directory a table."""
ANSWERS, SAFE, LOCKED = "answers", "safe", "locked"
"""What is known of a place: it answers; it has conditional writes; a lock takes their place."""
_CHECKED: PerProcess[dict[tuple[str, str, str, str], str]] = PerProcess(dict)
"""Places that answered, and those that were found safe, by endpoint, bucket and prefix."""


class ObjectStoreFileIO:
    """A bucket. Picklable without its secrets; may be used by several threads.

    Parameters
    ----------
    location : Location
        Bucket and prefix; what is checked before the first write is checked below it.
    credentials : CredentialSource, optional
        Gives keys for a while, in place of those of the settings. It goes along to copies.
    put_lock : PutLock, optional
        Taken around puts where the store has no conditional writes. Without it such a store is
        refused.
    """

    def __init__(
        self,
        location: Location,
        settings: StoreSettings,
        env: Env,
        *,
        credentials: CredentialSource | None = None,
        put_lock: PutLock | None = None,
    ) -> None:
        self._location = location
        self._settings = settings
        self._env = env
        self._credentials = credentials
        self._put_lock = put_lock
        self._lock = PerProcess(threading.Lock)
        self._made: Clients | None = None
        self._store_time = StoreTime()
        endpoint = settings.values.get("endpoint", "")
        secrets = tuple(secret.reveal() for secret in settings.secrets.values())
        name = f"{location.scheme}://{location.authority}"
        path_style = settings.flag("path-style-access", default=True)
        self._bucket = Bucket(name, endpoint, secrets, credentials, path_style)

    def __repr__(self) -> str:
        return f"ObjectStoreFileIO({str(self._location)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        made = (self._location, self._settings, self._env, self._credentials, self._put_lock)
        return (_copied, made)

    def with_put_lock(self, lock: PutLock) -> ObjectStoreFileIO:
        """Allow a store without conditional writes; see ``put_lock``."""
        return ObjectStoreFileIO(
            self._location,
            self._settings,
            self._env,
            credentials=self._credentials,
            put_lock=lock,
        )

    @property
    def has_secrets(self) -> bool:
        """Whether its keys are known to this process alone."""
        return bool(self._settings.secrets) or self._credentials is not None

    @property
    def store_id(self) -> tuple[str, ...]:
        """What tells this store from others with a bucket of the same name; no secret."""
        values = self._settings.values
        return tuple(values.get(name, "") for name in _STORE_KEYS)

    @property
    def account(self) -> str:
        """Azure's storage account, as the URI or the settings name it; else empty."""
        return self._settings.values.get("account-name", "")

    def uri_of(self, path: str) -> str:
        """How a path is shown."""
        return self._bucket.shown(path)

    # reading

    def read_bytes(self, path: str, *, bytes_max: int = SMALL_FILE_BYTES_MAX) -> bytes:
        """Read a whole file; its length comes first."""

        def read(obstore: Any) -> tuple[bytes, int]:
            found = obstore.get(self._clients.steady, _key(path))
            size = int(found.meta["size"])
            if size > bytes_max:
                raise file_too_large(path, size, bytes_max)
            return bytes(found.bytes()), size

        data, size = self._steadily(path, "read", read)
        if len(data) != size:
            raise range_missing(path, 0, size, len(data))
        return data

    @property
    def is_remote(self) -> bool:
        """True: each call is a request."""
        return True

    @property
    def holds_directories(self) -> bool:
        """False: there are none, only names that begin alike."""
        return False

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``offset``."""
        return self.read_ranges(path, [(offset, length)])[0].to_pybytes()

    def read_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Read several ranges at once, without a copy."""
        wanted = [(offset, length) for offset, length in ranges if length]
        parts = iter(self._parts(path, wanted) if wanted else [])
        return [next(parts) if length else pa.py_buffer(b"") for _, length in ranges]

    def _parts(self, path: str, ranges: list[ByteRange]) -> list[pa.Buffer]:
        def read(obstore: Any) -> Any:
            try:
                return obstore.get_ranges(
                    self._clients.steady,
                    _key(path),
                    starts=[offset for offset, _ in ranges],
                    lengths=[length for _, length in ranges],
                    coalesce=0,
                )
            except obstore.exceptions.BaseError as error:
                if not refusal_of(error).is_past_end:
                    raise
                raise range_missing(path, *max(ranges), 0) from self._bucket.cause(error)

        found = self._steadily(path, "read", read)
        parts = [pa.py_buffer(part) for part in found]
        for (offset, length), part in zip(ranges, parts, strict=True):
            check_range(path, offset, length, part.size)  # a store gives what there is, no error
        return parts

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a file for random access; its end is read at once."""
        size, tail = self._tail(path)

        def read(offset: int, length: int) -> bytes:
            return self.read_range(path, offset, length)

        return open_tailed(size, tail, read)

    def _tail(self, path: str) -> tuple[int, bytes]:
        """Length and last bytes, by one request; Azure takes two."""
        if self._location.scheme == "az":
            size = self.size(path)
            length = min(size, TAIL_BYTES)
            return size, self.read_range(path, size - length, length)

        def read(obstore: Any) -> tuple[int, bytes, int]:
            options = {"range": {"suffix": TAIL_BYTES}}
            try:
                found = obstore.get(self._clients.steady, _key(path), options=options)
                return int(found.meta["size"]), bytes(found.bytes()), int(found.range[0])
            except obstore.exceptions.BaseError as error:
                if not refusal_of(error).is_past_end:  # so an empty file answers
                    raise
                return 0, b"", 0

        size, tail, first = self._steadily(path, "open", read)
        if len(tail) != min(size, TAIL_BYTES):
            raise range_missing(path, first, min(size, TAIL_BYTES), len(tail))
        return size, tail

    def size(self, path: str) -> int:
        """Length of a file in bytes."""
        with self._asked(path, "look up") as obstore:
            return int(obstore.head(self._clients.steady, _key(path))["size"])

    def exists(self, path: str, *, within: OpenDirectory | None = None) -> bool:
        """Whether there is a file, or without `within` anything below the name."""
        plain = check_path(path).rstrip("/")
        if plain:
            with self._asked(path, "look up") as obstore:
                try:
                    obstore.head(self._clients.steady, plain[1:])
                except FileNotFoundError:
                    if within is not None:
                        return False
                else:
                    return True
        return self._holds_any(plain)

    def _holds_any(self, path: str) -> bool:
        def look(obstore: Any) -> bool:
            pages = obstore.list(self._clients.steady, path[1:] or None, chunk_size=1)
            return any(True for page in pages for _ in page)

        return self._steadily(path or "/", "look up", look)

    def list_dir(self, path: str) -> list[FileStatus]:
        """List a directory, all pages.

        A store that ends a listing too early is noticed where the last page is full.
        """
        prefix = check_path(path).strip("/")

        def listed(obstore: Any) -> tuple[Any, bool]:
            found = obstore.list_with_delimiter(self._clients.steady, prefix or None)
            last = last_of_full_pages(found)
            is_whole = last is None or ends_with(obstore, self._clients.steady, prefix, last)
            return found, is_whole

        for _ in range(WHOLE_TRIES_MAX):
            found, is_whole = self._steadily(path, "list", listed)
            if is_whole:
                break
        else:
            message = (
                f"{self.uri_of(path)} holds more than the store lists: its listing ended after"
                " full pages, although there are names behind the last one. Look at the store, or"
                " at what stands between."
            )
            raise StorageError(message, kind="listing_not_whole", path=path)
        entries = [_directory(shared) for shared in found["common_prefixes"]]
        entries += [
            _file(entry)
            for entry in found["objects"]
            if entry["path"] != prefix and not entry["path"].endswith(f"/{DIRECTORY_MARKER}")
        ]
        return entries

    # writing

    def open_output(self, path: str) -> ObjectOutputFile:
        """Open a new file; nothing is sent before it has a part's length, or is closed."""
        check_path(path)
        self._ready_to_write()

        return ObjectOutputFile(path, self._clients, self._bucket, self._put_own)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a whole new file."""
        check_path(path)
        self._ready_to_write()
        if not self._put_own(path, data):
            raise name_taken(path)

    def _put_own(self, path: str, data: bytes) -> bool:
        """Put a file whose name is this writer's alone."""
        publisher = self._publisher
        if self._checked_as() == LOCKED:
            return publisher.put_own(path, data)
        return publisher.put_if_absent(path, data, verb="write")

    def sync_dir(self, path: str) -> None:
        """Do nothing: names are durable."""
        check_path(path)

    def open_dir(self, path: str, *, make: bool = False) -> PathDirectory:
        """Check that a directory is there, or with `make` its parent."""
        plain = check_path(path).rstrip("/")
        if not plain or self._holds_any(plain):
            return PathDirectory(path)
        parent = parent_of(plain)
        if not make or (parent != "/" and not self._holds_any(parent)):
            raise dir_missing(path)
        return PathDirectory(path)

    def put_if_absent(
        self,
        path: str,
        data: bytes,
        *,
        within: OpenDirectory | None = None,
        over: bytes | None = None,
    ) -> bool:
        """Publish a file by one conditional put, and the truth by reading back."""
        _check_within(path, within)
        self._ready_to_write()
        if self._checked_as() == LOCKED or (within is None and over is None):
            return self._put_shared(path, data, over=over)
        place = PathDirectory(path) if within is None else within
        assert isinstance(place, PathDirectory), "it was checked"
        try:
            if over is not None:
                put = self._publisher.put_over(path, data, over)
            else:
                put = self._publisher.settled_put(path, data, self._env.ids.uuid(), verb="publish")
        except StorageRefusedError:
            raise
        except StorageError:
            place.has_late_put = True
            raise
        place.has_late_put = place.has_late_put or put.may_come_late
        return put.is_ours

    def _put_shared(
        self, path: str, data: bytes, *, verb: str = "publish", over: bytes | None = None
    ) -> bool:
        """Put a file whose name others may want."""
        publisher = self._publisher
        if self._checked_as() == LOCKED:
            assert self._put_lock is not None, "else the place was refused"
            locked = LockedPublisher(publisher, self._put_lock)
            return locked.put_if_absent(path, data, verb=verb, over=over)
        return publisher.put_if_absent(path, data, verb=verb)

    def replace(self, path: str, data: bytes, *, within: OpenDirectory | None = None) -> None:
        """Write or overwrite a file."""
        _check_within(path, within)
        self._ready_to_write()
        with self._asked(path, "replace") as obstore:
            obstore.put(self._clients.steady, _key(path), data, use_multipart=False)

    def delete(
        self,
        path: str,
        *,
        within: OpenDirectory | None = None,
        reused: bool = False,
        expected: bytes | None = None,
    ) -> bool:
        """Delete a file; False if there was none."""
        _check_within(path, within)
        if reused or expected is not None:
            names = ReusedName(self._clients, self._settings, self._env.clock, self._store_time)
            with self._asked(path, "delete"):
                done = names.delete(_key(path), expected)
            if done is not None:
                return done
            if not is_expected(self, path, expected):
                return False
        with self._asked(path, "delete") as obstore:
            try:
                obstore.head(self._clients.steady, _key(path))
            except FileNotFoundError:
                return False
            # sent again, it could delete what came under the name meanwhile
            client = self._clients.once if reused else self._clients.steady
            obstore.delete(client, _key(path))
        return True

    def delete_dir(self, path: str) -> None:
        """Delete all below a prefix, again while others write there.

        Raises
        ------
        StorageRefusedError
            Others still write there, or have created a table there again; that stays.
        """
        prefix = check_path(path).strip("/")

        def listed(obstore: Any) -> set[ObjectIdentity]:
            pages = obstore.list(self._clients.steady, prefix or None, chunk_size=1000)
            return {_identity(entry) for page in pages for entry in page}

        met: set[ObjectIdentity] = set()
        deleted: set[ObjectIdentity] = set()
        failures = 0
        for _ in range(DELETE_PASSES):
            with self._asked(path, "delete") as obstore:
                # a key that ends with '/', as others make for a directory, has no name here; one
                # that was put again is another object
                left = self._steadily(path, "delete", listed) - deleted
                if not left:
                    return
                if met and any(SCHEMA_FILE in f"/{key}" for key, _, _ in left - met):
                    raise self._created_again(path)
                met |= left
                try:
                    obstore.delete(self._clients.steady, sorted(key for key, _, _ in left))
                except obstore.exceptions.BaseError as error:
                    # a POST, which the client sends once: a connection that the store closed
                    # meanwhile fails it. The next pass asks for what is left
                    failures += 1
                    if failures == DELETE_FAILURES_MAX or refusal_of(error).is_definite:
                        raise
                    self._env.clock.sleep_ms(DELETE_WAIT_MS)
                    continue
            deleted |= left
        message = f"{self.uri_of(path)} fills while it is deleted: stop its writers and try again."
        raise StorageRefusedError(message, kind="directory_busy", path=path)

    def _created_again(self, path: str) -> StorageRefusedError:
        message = (
            f"{self.uri_of(path)} was created again while it was deleted, and what is there now was"
            " kept. Look at it, and delete it again if it is to go."
        )
        return StorageRefusedError(message, kind="directory_busy", path=path)

    @property
    def storage_id(self) -> str:
        """The bucket, and what tells its store from others."""
        return "\0".join((self._bucket.name, self.account, *self.store_id))

    def copy_within(self, source: str, target: str) -> bool:
        """Let the store copy an object; False if it is larger than a store copies at once."""
        check_path(target)
        if self.size(source) > COPY_BYTES_MAX:
            return False
        self._ready_to_write()
        with self._asked(source, "copy") as obstore:
            obstore.copy(self._clients.steady, _key(source), _key(target))
        return True

    def move_dir(self, source: str, target: str) -> None:
        """Refuse: a store cannot rename a directory atomically."""
        check_path(target)
        message = (
            f"{self.uri_of(check_path(source))} cannot be renamed: an object store has no"
            " directories, and copies objects one by one, so others would see half of it. Copy the"
            " table (CREATE TABLE ... AS SELECT) and drop the old one, or use a catalog that keeps"
            " names and places apart."
        )
        raise UnsupportedError(message, kind="no_atomic_move", path=source)

    def make_dirs(self, path: str) -> None:
        """Make an empty directory visible."""
        plain = check_path(path).rstrip("/")
        if not plain or self._holds_any(plain):
            return
        self._ready_to_write()
        self._put_shared(f"{plain}/{DIRECTORY_MARKER}", b"", verb="create")

    # the client

    @property
    def _clients(self) -> Clients:
        """The clients, after the place was checked in this process."""
        _optional.check_not_forked()
        if self._made is None:
            with self._lock.value:
                made = self._made or open_clients(self._location, self._settings, self._credentials)
                if self._checked_as() is None:
                    check_answers(made, self._bucket, self._location.path)
                    self._remember(ANSWERS)
                self._made = made
        return self._made

    @property
    def _publisher(self) -> ObjectPublisher:
        env = self._env
        return ObjectPublisher(self._clients, self._bucket, env.clock, env.ids, env.rng)

    def _ready_to_write(self) -> None:
        """Test the place once, before this process first writes there."""
        publisher = self._publisher
        if self._checked_as() in {SAFE, LOCKED}:
            return
        with self._lock.value:
            if self._checked_as() in {SAFE, LOCKED}:
                return
            root = self._location.path.rstrip("/")
            probe = f"{root}/{PROBE_PREFIX}{self._env.ids.uuid()}/{PROBE_NAME}"
            has_conditions = check_safe(publisher, probe, has_lock=self._put_lock is not None)
            self._remember(SAFE if has_conditions else LOCKED)

    def _checked_as(self) -> str | None:
        found = _CHECKED.value.get(self._identity)
        return ANSWERS if found == LOCKED and self._put_lock is None else found

    def _remember(self, how: str) -> None:
        _CHECKED.value[self._identity] = how

    @property
    def _identity(self) -> tuple[str, str, str, str]:
        key_id = self._settings.values.get("access-key", "")
        return (self._bucket.endpoint, self._bucket.name, self._location.path, key_id)

    def _steadily(self, path: str, verb: str, call: Callable[[Any], T]) -> T:
        """Ask for something that changes nothing, again if an answer breaks off.

        The client sends a request again whose answer does not begin; one that ends in its middle,
        of a listing or of an error, it does not.
        """
        with self._asked(path, verb) as obstore:
            for _ in range(BROKEN_ANSWERS_MAX):
                try:
                    return call(obstore)
                except obstore.exceptions.BaseError as error:
                    if not refusal_of(error).is_broken_off:
                        raise
                self._env.clock.sleep_ms(BROKEN_ANSWER_WAIT_MS)
            return call(obstore)

    @contextlib.contextmanager
    def _asked(self, path: str, verb: str) -> Iterator[Any]:
        """The client's module; its errors become ours."""
        check_path(path)
        obstore = self._clients.calls
        try:
            yield obstore
        except TidelakeError:
            raise
        except FileNotFoundError as error:
            made = translated(error, self._bucket, path, verb)
            raise made from self._bucket.cause(error)
        except (obstore.exceptions.BaseError, OSError) as error:
            reason = self._reason(error, path)
            raise translated(reason, self._bucket, path, verb) from self._bucket.cause(reason)

    def _reason(self, error: Exception, path: str) -> Exception:
        """A client's error, or where the store gave no reason the one that it gives a listing.

        The answer to HEAD has no body. The place answered before, perhaps with other keys.
        """
        if not refusal_of(error).is_unexplained:
            return error
        obstore = self._clients.calls
        try:
            next(iter(obstore.list(self._clients.steady, _key(path), chunk_size=1)), None)
        except (obstore.exceptions.BaseError, OSError) as told:
            return told if refusal_of(told).code else error
        return error


def _copied(
    location: Location,
    settings: StoreSettings,
    env: Env,
    credentials: CredentialSource | None,
    put_lock: PutLock | None,
) -> ObjectStoreFileIO:
    return ObjectStoreFileIO(location, settings, env, credentials=credentials, put_lock=put_lock)


def _check_within(path: str, within: OpenDirectory | None) -> None:
    check_path(path)
    assert within is None or isinstance(within, PathDirectory), "it is of this storage"


def _key(path: str) -> str:
    key = check_path(path).strip("/")
    if not key:
        raise file_missing(path)
    return key


def _identity(entry: Any) -> ObjectIdentity:
    """What tells an object from one that was put under its name later."""
    return (entry["path"], entry["e_tag"], entry["last_modified"])


def _directory(shared: str) -> FileStatus:
    return FileStatus(shared.rpartition("/")[2], 0, is_dir=True, modified_ms=0)


def _file(entry: Any) -> FileStatus:
    modified_ms = int(entry["last_modified"].timestamp() * 1000)
    name = entry["path"].rpartition("/")[2]
    return FileStatus(name, int(entry["size"]), is_dir=False, modified_ms=modified_ms)

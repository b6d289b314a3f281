"""Types of the messages of the query service, generated."""
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Body(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BODY_PACKED: _ClassVar[Body]
    BODY_ARROW: _ClassVar[Body]
BODY_PACKED: Body
BODY_ARROW: Body

class Column(_message.Message):
    __slots__ = ("values", "offsets", "valid")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    VALID_FIELD_NUMBER: _ClassVar[int]
    values: bytes
    offsets: bytes
    valid: bytes
    def __init__(self, values: _Optional[bytes] = ..., offsets: _Optional[bytes] = ..., valid: _Optional[bytes] = ...) -> None: ...

class PackedRows(_message.Message):
    __slots__ = ("count", "columns")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    count: int
    columns: _containers.RepeatedCompositeFieldContainer[Column]
    def __init__(self, count: _Optional[int] = ..., columns: _Optional[_Iterable[_Union[Column, _Mapping]]] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("partition", "bucket", "count", "buckets")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    partition: bytes
    bucket: int
    count: int
    buckets: int
    def __init__(self, partition: _Optional[bytes] = ..., bucket: _Optional[int] = ..., count: _Optional[int] = ..., buckets: _Optional[int] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("generation", "snapshot", "schema")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    generation: int
    snapshot: int
    schema: int
    def __init__(self, generation: _Optional[int] = ..., snapshot: _Optional[int] = ..., schema: _Optional[int] = ...) -> None: ...

class LookupRequest(_message.Message):
    __slots__ = ("protocol", "table", "epoch", "at_least", "slices", "keys", "columns", "body", "id", "wait_ms")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    table: str
    epoch: int
    at_least: Version
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    keys: PackedRows
    columns: _containers.RepeatedScalarFieldContainer[str]
    body: Body
    id: int
    wait_ms: int
    def __init__(self, protocol: _Optional[int] = ..., table: _Optional[str] = ..., epoch: _Optional[int] = ..., at_least: _Optional[_Union[Version, _Mapping]] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ..., keys: _Optional[_Union[PackedRows, _Mapping]] = ..., columns: _Optional[_Iterable[str]] = ..., body: _Optional[_Union[Body, str]] = ..., id: _Optional[int] = ..., wait_ms: _Optional[int] = ...) -> None: ...

class LookupReply(_message.Message):
    __slots__ = ("version", "found", "rows", "arrow", "id", "problem")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ARROW_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    version: Version
    found: bytes
    rows: PackedRows
    arrow: bytes
    id: int
    problem: Problem
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., found: _Optional[bytes] = ..., rows: _Optional[_Union[PackedRows, _Mapping]] = ..., arrow: _Optional[bytes] = ..., id: _Optional[int] = ..., problem: _Optional[_Union[Problem, _Mapping]] = ...) -> None: ...

class Problem(_message.Message):
    __slots__ = ("code", "reason", "message", "buckets")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    buckets: _containers.RepeatedCompositeFieldContainer[SliceBuckets]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., buckets: _Optional[_Iterable[_Union[SliceBuckets, _Mapping]]] = ...) -> None: ...

class SliceBuckets(_message.Message):
    __slots__ = ("slice", "buckets")
    SLICE_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    slice: int
    buckets: int
    def __init__(self, slice: _Optional[int] = ..., buckets: _Optional[int] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ("protocol", "table", "known_epoch")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    KNOWN_EPOCH_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    table: str
    known_epoch: int
    def __init__(self, protocol: _Optional[int] = ..., table: _Optional[str] = ..., known_epoch: _Optional[int] = ...) -> None: ...

class Layout(_message.Message):
    __slots__ = ("epoch", "table", "service_id", "executors_count", "executors", "version", "bucket_mode", "server_name")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BUCKET_MODE_FIELD_NUMBER: _ClassVar[int]
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    table: str
    service_id: str
    executors_count: int
    executors: _containers.RepeatedCompositeFieldContainer[ExecutorAddress]
    version: Version
    bucket_mode: str
    server_name: str
    def __init__(self, epoch: _Optional[int] = ..., table: _Optional[str] = ..., service_id: _Optional[str] = ..., executors_count: _Optional[int] = ..., executors: _Optional[_Iterable[_Union[ExecutorAddress, _Mapping]]] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., bucket_mode: _Optional[str] = ..., server_name: _Optional[str] = ...) -> None: ...

class ExecutorAddress(_message.Message):
    __slots__ = ("index", "address", "ready", "instance", "frames")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    index: int
    address: str
    ready: bool
    instance: str
    frames: str
    def __init__(self, index: _Optional[int] = ..., address: _Optional[str] = ..., ready: _Optional[bool] = ..., instance: _Optional[str] = ..., frames: _Optional[str] = ...) -> None: ...

class ExecutorReport(_message.Message):
    __slots__ = ("protocol", "service_id", "index", "attempt", "instance", "address", "epoch", "process", "tables", "leaving", "host", "frames")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    service_id: str
    index: int
    attempt: int
    instance: str
    address: str
    epoch: int
    process: int
    tables: _containers.RepeatedCompositeFieldContainer[TableReport]
    leaving: bool
    host: str
    frames: str
    def __init__(self, protocol: _Optional[int] = ..., service_id: _Optional[str] = ..., index: _Optional[int] = ..., attempt: _Optional[int] = ..., instance: _Optional[str] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., process: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableReport, _Mapping]]] = ..., leaving: _Optional[bool] = ..., host: _Optional[str] = ..., frames: _Optional[str] = ...) -> None: ...

class TableReport(_message.Message):
    __slots__ = ("table", "ready", "version", "buckets_count", "requests", "keys", "found", "refused", "files", "mapped_bytes", "disk_bytes", "files_built", "p50_us", "p99_us", "problem", "keys_per_second")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_COUNT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    MAPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    DISK_BYTES_FIELD_NUMBER: _ClassVar[int]
    FILES_BUILT_FIELD_NUMBER: _ClassVar[int]
    P50_US_FIELD_NUMBER: _ClassVar[int]
    P99_US_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    KEYS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    table: str
    ready: bool
    version: Version
    buckets_count: int
    requests: int
    keys: int
    found: int
    refused: int
    files: int
    mapped_bytes: int
    disk_bytes: int
    files_built: int
    p50_us: int
    p99_us: int
    problem: str
    keys_per_second: float
    def __init__(self, table: _Optional[str] = ..., ready: _Optional[bool] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., buckets_count: _Optional[int] = ..., requests: _Optional[int] = ..., keys: _Optional[int] = ..., found: _Optional[int] = ..., refused: _Optional[int] = ..., files: _Optional[int] = ..., mapped_bytes: _Optional[int] = ..., disk_bytes: _Optional[int] = ..., files_built: _Optional[int] = ..., p50_us: _Optional[int] = ..., p99_us: _Optional[int] = ..., problem: _Optional[str] = ..., keys_per_second: _Optional[float] = ...) -> None: ...

class Directive(_message.Message):
    __slots__ = ("stop", "epoch", "executors_count", "tables", "heartbeat_ms", "superseded")
    STOP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_COUNT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    stop: bool
    epoch: int
    executors_count: int
    tables: _containers.RepeatedCompositeFieldContainer[ServedTable]
    heartbeat_ms: int
    superseded: bool
    def __init__(self, stop: _Optional[bool] = ..., epoch: _Optional[int] = ..., executors_count: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[ServedTable, _Mapping]]] = ..., heartbeat_ms: _Optional[int] = ..., superseded: _Optional[bool] = ...) -> None: ...

class ServedTable(_message.Message):
    __slots__ = ("table", "location", "version", "epoch")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    table: str
    location: str
    version: Version
    epoch: int
    def __init__(self, table: _Optional[str] = ..., location: _Optional[str] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class ChangesRequest(_message.Message):
    __slots__ = ("protocol", "table", "index", "since")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    table: str
    index: int
    since: Version
    def __init__(self, protocol: _Optional[int] = ..., table: _Optional[str] = ..., index: _Optional[int] = ..., since: _Optional[_Union[Version, _Mapping]] = ...) -> None: ...

class ChangesReply(_message.Message):
    __slots__ = ("version", "whole", "changes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    version: Version
    whole: bool
    changes: _containers.RepeatedCompositeFieldContainer[BucketChange]
    def __init__(self, version: _Optional[_Union[Version, _Mapping]] = ..., whole: _Optional[bool] = ..., changes: _Optional[_Iterable[_Union[BucketChange, _Mapping]]] = ...) -> None: ...

class BucketChange(_message.Message):
    __slots__ = ("partition", "bucket", "buckets", "files_before", "files_after")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_FIELD_NUMBER: _ClassVar[int]
    FILES_BEFORE_FIELD_NUMBER: _ClassVar[int]
    FILES_AFTER_FIELD_NUMBER: _ClassVar[int]
    partition: bytes
    bucket: int
    buckets: int
    files_before: bytes
    files_after: bytes
    def __init__(self, partition: _Optional[bytes] = ..., bucket: _Optional[int] = ..., buckets: _Optional[int] = ..., files_before: _Optional[bytes] = ..., files_after: _Optional[bytes] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ("protocol",)
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    def __init__(self, protocol: _Optional[int] = ...) -> None: ...

class ServiceStatus(_message.Message):
    __slots__ = ("service_id", "address", "epoch", "started_ms", "stopping", "executors_count", "tables", "executors")
    SERVICE_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_COUNT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    service_id: str
    address: str
    epoch: int
    started_ms: int
    stopping: bool
    executors_count: int
    tables: _containers.RepeatedCompositeFieldContainer[TableStatus]
    executors: _containers.RepeatedCompositeFieldContainer[ExecutorStatus]
    def __init__(self, service_id: _Optional[str] = ..., address: _Optional[str] = ..., epoch: _Optional[int] = ..., started_ms: _Optional[int] = ..., stopping: _Optional[bool] = ..., executors_count: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableStatus, _Mapping]]] = ..., executors: _Optional[_Iterable[_Union[ExecutorStatus, _Mapping]]] = ...) -> None: ...

class TableStatus(_message.Message):
    __slots__ = ("table", "version", "committed_ms", "buckets_count", "bucket_mode", "problem")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_MS_FIELD_NUMBER: _ClassVar[int]
    BUCKETS_COUNT_FIELD_NUMBER: _ClassVar[int]
    BUCKET_MODE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    table: str
    version: Version
    committed_ms: int
    buckets_count: int
    bucket_mode: str
    problem: str
    def __init__(self, table: _Optional[str] = ..., version: _Optional[_Union[Version, _Mapping]] = ..., committed_ms: _Optional[int] = ..., buckets_count: _Optional[int] = ..., bucket_mode: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class ExecutorStatus(_message.Message):
    __slots__ = ("index", "address", "instance", "ready", "heartbeat_age_ms", "process", "tables")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_AGE_MS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    index: int
    address: str
    instance: str
    ready: bool
    heartbeat_age_ms: int
    process: int
    tables: _containers.RepeatedCompositeFieldContainer[TableReport]
    def __init__(self, index: _Optional[int] = ..., address: _Optional[str] = ..., instance: _Optional[str] = ..., ready: _Optional[bool] = ..., heartbeat_age_ms: _Optional[int] = ..., process: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[TableReport, _Mapping]]] = ...) -> None: ...

class ServeRequest(_message.Message):
    __slots__ = ("protocol", "add", "remove", "stop")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    add: _containers.RepeatedScalarFieldContainer[str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    stop: bool
    def __init__(self, protocol: _Optional[int] = ..., add: _Optional[_Iterable[str]] = ..., remove: _Optional[_Iterable[str]] = ..., stop: _Optional[bool] = ...) -> None: ...

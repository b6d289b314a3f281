"""An S3 in the test's own process: strict, quick, and unreliable on order.

    with S3Server() as s3:
        tidelake.open("s3://lake/warehouse", storage=s3.storage())
        s3.fault("lost", "PUT", "snapshot-3")

It does what a lakehouse asks of S3: PUT with ``If-None-Match`` or ``If-Match`` (atomic), GET and
HEAD with ranges, DELETE and bulk delete, ListObjectsV2 with delimiter and pages, multipart uploads
(the condition holds at completion), CopyObject; path style and virtual hosts; and GCS's form of the
condition, ``x-goog-if-generation-match``. It also hands out temporary credentials as AWS's STS and
containers do. Signatures are not verified; key ids, tokens and the clock are, if told to.

Each request is recorded: :attr:`S3Server.requests`, :meth:`S3Server.count`, how many were in flight
at once, and how many rounds they took. From a shell, ``python -m servers.s3 PORT``.
"""

from __future__ import annotations

import base64
import calendar
import contextlib
import email.utils
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Self
from xml.sax.saxutils import escape, unescape

from servers.faults import Fault, Mode
from servers.object_map import ObjectMap, StoredObject, etag_of
from servers.threaded_http import HttpAnswer, HttpRequest, ThreadedHttpServer

PART_BYTES_MIN = 5 << 20
PAGE_KEYS_MAX = 1000
KEY_BYTES_MAX = 1024
SKEW_S_MAX = 15 * 60
MUTATING = frozenset({"PUT", "POST", "DELETE"})
KEY_ID, SECRET = "tide-key", "tide-secret-a1b2c3"


@dataclass(slots=True)
class Recorded:
    """One request as the server saw it."""

    method: str
    target: str
    condition: str
    range: str
    body_bytes: int
    mode: Mode | None
    began: float
    ended: float = 0.0
    key_id: str = ""
    """Who signed it."""

    def __str__(self) -> str:
        words = [self.method, self.target, self.condition, self.range, self.mode or ""]
        return " ".join(word for word in words if word)


@dataclass(slots=True)
class Upload:
    """A multipart upload that is not complete."""

    bucket: str
    key: str
    parts: dict[int, bytes]


class S3Error(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, code: str, message: str = "", **headers: str) -> None:
        super().__init__(code)
        self.status, self.code, self.headers = status, code, headers
        self.message = message or code

    def answer(self) -> HttpAnswer:
        """The XML that S3 sends."""
        inner = f"<Code>{self.code}</Code><Message>{escape(self.message)}</Message>"
        headers = {name.replace("_", "-"): value for name, value in self.headers.items()}
        return xml(f"<Error>{inner}</Error>", self.status, headers)


def xml(text: str, status: int = 200, headers: dict[str, str] | None = None) -> HttpAnswer:
    """An answer of XML."""
    body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode()
    return HttpAnswer(status, {"Content-Type": "application/xml", **(headers or {})}, body)


class S3Server:
    """The server; closes at the end of a ``with`` block.

    Parameters
    ----------
    buckets : iterable of str
        Buckets that exist.
    latency_ms : float
        Each request waits so long before its effect.
    page_keys : int
        Names in a page of a listing at most.
    port : int
        0 takes a free one.
    tls : ssl.SSLContext, optional
        Speak HTTPS.
    """

    def __init__(
        self,
        buckets: Iterable[str] = ("lake",),
        *,
        latency_ms: float = 0.0,
        page_keys: int = PAGE_KEYS_MAX,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.latency_ms = latency_ms
        self.page_keys = page_keys
        self.conditions = "honoured"
        """How it takes If-None-Match: 'honoured', 'ignored' or 'refused' (501)."""
        self.delete_conditions = True
        """Whether a delete honours If-Match, as AWS does; MinIO does not look at it."""
        self.keeps_metadata = True
        """Whether headers x-amz-meta-* come back with their object."""
        self.region: str | None = None
        """If set, requests signed for another region are refused."""
        self.key_ids: Container[str] | None = None
        """If set, the key ids that are known."""
        self.read_only: set[str] = set()
        """Key ids that may not change anything."""
        self.expired_tokens: Container[str] = set()
        self.expired_status = 400
        """The status of the answer to one of them; other stores than S3 say 403."""
        self.clock_offset_s: float | None = None
        """If set, the server's clock differs by so much, and skewed requests are refused."""
        self.empty_range: str | None = None
        """If set, the range in answers for an empty object, as MinIO's; else 416."""
        self.vended: list[dict[str, str]] = []
        """Answers of the credentials' endpoints, one after the other; the last one stays."""
        self.keeps_requests = True
        """Whether requests are recorded; millions of them would fill the memory."""
        self.requests: list[Recorded] = []
        self.in_flight_max = 0
        self._in_flight = 0
        self._buckets = {name: ObjectMap() for name in buckets}
        self._uploads: dict[str, Upload] = {}
        self._faults: list[Fault] = []
        self._deferred: list[tuple[int, Callable[[], object]]] = []
        self._lock = threading.RLock()
        self._http = ThreadedHttpServer(self._answer, port, tls)
        self.port = self._http.port
        self.url = self._http.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop."""
        self._http.close()

    # what a test says

    def storage(self, **more: str) -> dict[str, str]:
        """What ``tidelake.open(..., storage=...)`` needs to come here."""
        return {
            "s3.endpoint": self.url,
            "s3.access-key": KEY_ID,
            "s3.secret-key": SECRET,
            "s3.path.style.access": "true",
            **more,
        }

    def fault(self, mode: Mode | str, method: str = "", key: str = "", **more: object) -> Fault:
        """Order a fault; see :class:`servers.faults.Fault` for what more it takes."""
        ordered = Fault(Mode(mode), method, key, **more)
        with self._lock:
            self._faults.append(ordered)
        return ordered

    def forget(self) -> None:
        """Forget requests and faults; the objects stay. Effects still to come happen now."""
        self.settle()
        with self._lock:
            self._faults.clear()
            self.requests.clear()
            self.in_flight_max = 0

    def settle(self) -> None:
        """Let all deferred effects happen."""
        with self._lock:
            due, self._deferred = self._deferred, []
        for _, effect in due:
            with contextlib.suppress(S3Error):
                effect()

    # what a test asks

    def bucket(self, name: str = "lake") -> ObjectMap:
        """The objects of a bucket, as they are now."""
        return self._buckets[name]

    def make_bucket(self, name: str) -> str:
        """A new empty bucket; its name."""
        with self._lock:
            self._buckets[name] = ObjectMap()
        return name

    def listing(self, prefix: str = "", bucket: str = "lake") -> list[str]:
        """The keys of a bucket, ascending."""
        with self._lock:
            return [key for key in self._buckets[bucket].keys if key.startswith(prefix)]

    @property
    def uploads(self) -> list[Upload]:
        """Multipart uploads that were begun and neither completed nor aborted."""
        with self._lock:
            return list(self._uploads.values())

    def count(self, method: str = "", key: str = "") -> int:
        """How many requests came, by method and part of the target."""
        with self._lock:
            return sum(
                method in ("", request.method) and key in request.target
                for request in self.requests
            )

    @property
    def rounds(self) -> int:
        """The longest chain of requests each of which began after the one before had ended."""
        with self._lock:
            spans = sorted((r.ended, r.began) for r in self.requests if r.ended)
        chain, last = 0, 0.0
        for ended, began in spans:
            if began >= last:
                chain, last = chain + 1, ended
        return chain

    # a request's way

    def _answer(self, request: HttpRequest) -> HttpAnswer:
        fault, recorded = self._arrived(request)
        try:
            if self.latency_ms:
                time.sleep(self.latency_ms / 1000)
            answer = self._with_fault(request, fault)
            now_s = time.time() + (self.clock_offset_s or 0)
            answer.headers = {**answer.headers, "Date": email.utils.formatdate(now_s, usegmt=True)}
            return answer
        finally:
            with self._lock:
                self._in_flight -= 1
                recorded.ended = time.perf_counter()

    def _arrived(self, request: HttpRequest) -> tuple[Fault | None, Recorded]:
        headers = request.headers
        names = ("if-none-match", "if-match", "x-goog-if-generation-match")
        said = " ".join(f"{name}={headers[name]}" for name in names if name in headers)
        with self._lock:
            met = [f for f in self._faults if f.meets(request.method, request.target)]
            fault = met[-1] if met else None
            recorded = Recorded(
                request.method,
                request.target,
                said,
                headers.get("range", ""),
                len(request.body),
                fault.mode if fault else None,
                time.perf_counter(),
                key_id=_signer(request)[0] or _bearer(request),
            )
            if self.keeps_requests:
                self.requests.append(recorded)
            self._in_flight += 1
            self.in_flight_max = max(self.in_flight_max, self._in_flight)
            due = [effect for left, effect in self._deferred if left <= 1]
            self._deferred = [(left - 1, effect) for left, effect in self._deferred if left > 1]
        for effect in due:
            with contextlib.suppress(S3Error):
                effect()
        return fault, recorded

    def _with_fault(self, request: HttpRequest, fault: Fault | None) -> HttpAnswer:
        def effect() -> HttpAnswer:
            return self._effect(request)

        if fault is None:
            return self._said(effect)
        refusal = S3Error(fault.status, fault.code, "injected", **fault.headers)
        match fault.mode:
            case Mode.STATUS:
                return refusal.answer()
            case Mode.STATUS_AFTER:
                self._said(effect)
                return refusal.answer()
            case Mode.DROP:
                return HttpAnswer(hangs_up=True)
            case Mode.LOST:
                self._said(effect)
                return HttpAnswer(hangs_up=True)
            case Mode.DEFER:
                with self._lock:
                    self._deferred.append((fault.after, effect))
                return HttpAnswer(hangs_up=True)
            case Mode.DUP:
                self._said(effect)
                return self._said(effect)
            case Mode.LATE:
                answer = self._said(effect)
                time.sleep(fault.ms / 1000)
                return answer
            case Mode.HANG:
                time.sleep(fault.ms / 1000)
                return self._said(effect)
            case Mode.HTML:
                page = b"<!DOCTYPE html><html><body>Sign in</body></html>"
                return HttpAnswer(200, {"Content-Type": "text/html"}, page)
            case Mode.PARTIAL:
                return self._delete_but_first(request)
        return _spoilt(self._said(effect), fault.mode)

    def _said(self, effect: Callable[[], HttpAnswer]) -> HttpAnswer:
        try:
            answer = effect()
        except S3Error as error:
            answer = error.answer()
        offset = self.clock_offset_s or 0.0
        date = email.utils.formatdate(time.time() + offset, usegmt=True)
        answer.headers = {"Date": date, "x-amz-request-id": uuid.uuid4().hex[:12], **answer.headers}
        return answer

    def _effect(self, request: HttpRequest) -> HttpAnswer:
        if request.path == "/_credentials" or "Action" in _form(request):
            return self._credentials(request)
        bucket, key = self._place(request)
        self._check_identity(request)
        if bucket not in self._buckets:
            if request.method == "PUT" and not key:
                with self._lock:
                    self._buckets.setdefault(bucket, ObjectMap())
                return HttpAnswer()
            raise S3Error(404, "NoSuchBucket", "The specified bucket does not exist")
        if key:
            return self._on_object(request, bucket, key)
        if request.method == "POST" and "delete" in request.query:
            return self._delete_many(bucket, _keys_of(request.body))
        if request.method == "GET":
            return self._list(bucket, request.query)
        return HttpAnswer()

    def _place(self, request: HttpRequest) -> tuple[str, str]:
        host = request.headers.get("host", "").partition(":")[0]
        if not re.fullmatch(r"[\d.]+|localhost", host):  # bucket.host
            return host.partition(".")[0], request.path.lstrip("/")
        bucket, _, key = request.path.removeprefix("/").partition("/")
        return bucket, key

    def _check_identity(self, request: HttpRequest) -> None:
        key_id, region = _signer(request)
        if request.headers.get("x-amz-security-token", "") in self.expired_tokens:
            raise S3Error(self.expired_status, "ExpiredToken", "The provided token has expired.")
        if _bearer(request) in self.expired_tokens:
            raise S3Error(401, "AuthenticationRequired", "Authentication required.")
        if "X-Amz-Expires" in request.query:
            signed = time.strptime(request.query["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
            ends = calendar.timegm(signed) + int(request.query["X-Amz-Expires"])
            if time.time() + (self.clock_offset_s or 0) > ends:
                raise S3Error(403, "AccessDenied", "Request has expired")
        if self.key_ids is not None and key_id not in self.key_ids:
            raise S3Error(403, "InvalidAccessKeyId", "The key id you provided does not exist.")
        if key_id in self.read_only and request.method in MUTATING:
            raise S3Error(403, "AccessDenied", "Access Denied")
        if self.region is not None and region and region != self.region:
            message = f"the region '{region}' is wrong; expecting '{self.region}'"
            raise S3Error(
                400, "AuthorizationHeaderMalformed", message, x_amz_bucket_region=self.region
            )
        if self.clock_offset_s is not None and (sent := request.headers.get("x-amz-date")):
            theirs = time.mktime(time.strptime(sent, "%Y%m%dT%H%M%SZ")) - time.timezone
            if abs(time.time() + self.clock_offset_s - theirs) > SKEW_S_MAX:
                message = (
                    "The difference between the request time and the current time is too large."
                )
                raise S3Error(403, "RequestTimeTooSkewed", message)

    # one object

    def _on_object(self, request: HttpRequest, bucket: str, key: str) -> HttpAnswer:
        if len(key.encode()) > KEY_BYTES_MAX:
            raise S3Error(400, "KeyTooLongError", "Your key is too long")
        query, objects = request.query, self._buckets[bucket]
        match request.method:
            case "PUT" if "partNumber" in query:
                return self._put_part(query, request.body)
            case "PUT":
                return self._put(request, objects, key)
            case "POST" if "uploads" in query:
                return self._begin_upload(bucket, key)
            case "POST" if "uploadId" in query:
                return self._complete(request, objects, key)
            case "DELETE" if "uploadId" in query:
                with self._lock:
                    self._uploads.pop(query["uploadId"], None)
                return HttpAnswer(204)
            case "DELETE":
                with self._lock:
                    if self.delete_conditions:
                        self._check_condition(request, objects, key)
                    objects.delete(key)
                return HttpAnswer(204)
        with self._lock:
            found = objects.get(key)
        if found is None:
            raise S3Error(404, "NoSuchKey", "The specified key does not exist.")
        wanted = request.headers.get("range")
        if wanted and not found.data and self.empty_range:
            headers = {"Content-Range": self.empty_range, "Content-Length": "0"}
            return HttpAnswer(206, {**headers, "ETag": found.etag})
        return _content(found, wanted)

    def _put(self, request: HttpRequest, objects: ObjectMap, key: str) -> HttpAnswer:
        source = request.headers.get("x-amz-copy-source")
        data = request.body
        with self._lock:
            if source:
                bucket, _, name = urllib.parse.unquote(source).lstrip("/").partition("/")
                found = self._buckets[bucket].get(name)
                if found is None:
                    raise S3Error(404, "NoSuchKey")
                data = found.data
            self._check_condition(request, objects, key)
            made = objects.put(key, data, time.time(), self._metadata(request))
        if source:
            return xml(f"<CopyObjectResult><ETag>{made.etag}</ETag></CopyObjectResult>")
        return HttpAnswer(200, {"ETag": made.etag})

    def _metadata(self, request: HttpRequest) -> dict[str, str]:
        """Headers that belong to the object: S3's and GCS's."""
        if not self.keeps_metadata:
            return {}
        prefixes = ("x-amz-meta-", "x-goog-meta-")
        return {k: v for k, v in request.headers.items() if k.startswith(prefixes)}

    def _check_condition(self, request: HttpRequest, objects: ObjectMap, key: str) -> None:
        headers, now = request.headers, objects.get(key)
        absent = headers.get("if-none-match") == "*"
        absent = absent or headers.get("x-goog-if-generation-match") == "0"
        if absent and self.conditions == "refused":
            raise S3Error(501, "NotImplemented", "A header you provided is not implemented.")
        if self.conditions == "ignored":
            return
        failed = S3Error(412, "PreconditionFailed", "At least one pre-condition did not hold")
        if absent and now is not None:
            raise failed
        wanted = headers.get("if-match")
        if wanted is not None:
            if now is None:
                raise S3Error(404, "NoSuchKey")
            if now.etag.strip('"') != wanted.strip('"'):
                raise failed

    # multipart

    def _begin_upload(self, bucket: str, key: str) -> HttpAnswer:
        upload_id = uuid.uuid4().hex
        with self._lock:
            self._uploads[upload_id] = Upload(bucket, key, {})
        inner = f"<Bucket>{bucket}</Bucket><Key>{escape(key)}</Key><UploadId>{upload_id}</UploadId>"
        return xml(f"<InitiateMultipartUploadResult>{inner}</InitiateMultipartUploadResult>")

    def _upload(self, query: dict[str, str]) -> Upload:
        found = self._uploads.get(query["uploadId"])
        if found is None:
            raise S3Error(404, "NoSuchUpload", "The specified upload does not exist.")
        return found

    def _put_part(self, query: dict[str, str], data: bytes) -> HttpAnswer:
        with self._lock:
            self._upload(query).parts[int(query["partNumber"])] = data
        return HttpAnswer(200, {"ETag": etag_of(data)})

    def _complete(self, request: HttpRequest, objects: ObjectMap, key: str) -> HttpAnswer:
        wanted = re.findall(r"<PartNumber>(\d+)</PartNumber>", request.body.decode())
        order = [int(number) for number in wanted]
        with self._lock:
            parts = self._upload(request.query).parts
            if any(number not in parts for number in order):
                raise S3Error(400, "InvalidPart")
            if any(len(parts[number]) < PART_BYTES_MIN for number in order[:-1]):
                raise S3Error(400, "EntityTooSmall")
            self._check_condition(request, objects, key)
            made = objects.put(key, b"".join(parts[n] for n in order), time.time())
            del self._uploads[request.query["uploadId"]]
        inner = f"<Key>{escape(key)}</Key><ETag>{made.etag}</ETag>"
        return xml(f"<CompleteMultipartUploadResult>{inner}</CompleteMultipartUploadResult>")

    # many objects

    def _delete_many(self, bucket: str, keys: list[str], kept: tuple[str, ...] = ()) -> HttpAnswer:
        with self._lock:
            for key in keys:
                if key not in kept:
                    self._buckets[bucket].delete(key)
        said = [f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys if key not in kept]
        said += [
            f"<Error><Key>{escape(key)}</Key><Code>InternalError</Code>"
            "<Message>injected</Message></Error>"
            for key in kept
        ]
        return xml(f"<DeleteResult>{''.join(said)}</DeleteResult>")

    def _delete_but_first(self, request: HttpRequest) -> HttpAnswer:
        keys = _keys_of(request.body)
        return self._delete_many(self._place(request)[0], keys, tuple(keys[:1]))

    def _list(self, bucket: str, query: dict[str, str]) -> HttpAnswer:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        begin = f"{query['start-after']}\0" if "start-after" in query else ""
        if "continuation-token" in query:
            begin = base64.b64decode(query["continuation-token"]).decode()
        count_max = min(int(query.get("max-keys", PAGE_KEYS_MAX)), self.page_keys)
        with self._lock:
            objects = self._buckets[bucket]
            page = objects.page(prefix, delimiter, begin, count_max)
            found = [(key, objects.get(key)) for key in page.keys]
        encoded = urllib.parse.quote if query.get("encoding-type") == "url" else escape
        lines = [f"<Name>{bucket}</Name><Prefix>{encoded(prefix)}</Prefix>"]
        lines += [_entry(encoded(key), entry) for key, entry in found if entry is not None]
        lines += [
            f"<CommonPrefixes><Prefix>{encoded(shared)}</Prefix></CommonPrefixes>"
            for shared in page.prefixes
        ]
        lines.append(f"<KeyCount>{len(page.keys) + len(page.prefixes)}</KeyCount>")
        lines.append(f"<MaxKeys>{count_max}</MaxKeys>")
        lines.append(f"<IsTruncated>{str(page.after is not None).lower()}</IsTruncated>")
        if page.after is not None:
            token = base64.b64encode(page.after.encode()).decode()
            lines.append(f"<NextContinuationToken>{token}</NextContinuationToken>")
        return xml(f"<ListBucketResult>{''.join(lines)}</ListBucketResult>")

    # credentials

    def _credentials(self, request: HttpRequest) -> HttpAnswer:
        """Temporary keys, as STS (in XML) or a container's agent (in JSON) gives them."""
        with self._lock:
            keys = self.vended.pop(0) if len(self.vended) > 1 else dict(*self.vended)
        ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        key_id, secret = keys.get("id", KEY_ID), keys.get("secret", SECRET)
        token, ends = keys.get("token", "session-1"), keys.get("ends", ends)
        if request.path == "/_credentials":
            said = {
                "AccessKeyId": key_id,
                "SecretAccessKey": secret,
                "Token": token,
                "Expiration": ends,
            }
            return HttpAnswer(200, {"Content-Type": "application/json"}, json.dumps(said).encode())
        inner = (
            f"<AccessKeyId>{key_id}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>"
            f"<SessionToken>{token}</SessionToken><Expiration>{ends}</Expiration>"
        )
        action = _form(request)["Action"]
        return xml(
            f"<{action}Response><{action}Result><Credentials>{inner}</Credentials>"
            f"</{action}Result></{action}Response>"
        )


def _signer(request: HttpRequest) -> tuple[str, str]:
    """The key id and the region of a signature; empty without one."""
    said = request.headers.get("authorization", "")
    signed = re.search(r"Credential=([^/]+)/\d+/([^/]+)/", said)
    return (signed[1], signed[2]) if signed else ("", "")


def _bearer(request: HttpRequest) -> str:
    """The OAuth token of a request to GCS."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token if kind == "Bearer" else ""


def _form(request: HttpRequest) -> dict[str, str]:
    """The fields of a form that was posted, or of a query for an action."""
    if "Action" in request.query:
        return request.query
    is_form = request.method == "POST" and request.path == "/" and not request.query
    return dict(urllib.parse.parse_qsl(request.body.decode("latin-1"))) if is_form else {}


def _keys_of(body: bytes) -> list[str]:
    found = re.findall(r"<Key>(.*?)</Key>", body.decode(), re.DOTALL)
    return [unescape(key, {"&quot;": '"', "&apos;": "'"}) for key in found]


def _entry(key: str, found: StoredObject) -> str:
    modified = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.modified_s))
    modified += f".{int(found.modified_s % 1 * 1000):03d}Z"
    return (
        f"<Contents><Key>{key}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>{found.etag}</ETag><Size>{len(found.data)}</Size></Contents>"
    )


def _content(found: StoredObject, wanted: str | None) -> HttpAnswer:
    """The answer to GET or HEAD."""
    modified = email.utils.formatdate(found.modified_s, usegmt=True)
    headers = {"ETag": found.etag, "Last-Modified": modified, "Accept-Ranges": "bytes"}
    headers |= found.metadata
    headers["Content-Type"] = "binary/octet-stream"
    length = len(found.data)
    if not wanted:
        return HttpAnswer(200, {**headers, "Content-Length": str(length)}, found.data)
    first, _, last = wanted.removeprefix("bytes=").partition("-")
    begin = int(first) if first else max(0, length - int(last))
    end = min(length, int(last) + 1) if first and last else length
    if begin >= length:
        raise S3Error(416, "InvalidRange", "The requested range is not satisfiable")
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{length}"
    headers["Content-Length"] = str(end - begin)
    return HttpAnswer(206, headers, memoryview(found.data)[begin:end])


def _spoilt(answer: HttpAnswer, mode: Mode) -> HttpAnswer:
    """An answer whose body is not what was asked for."""
    body = bytes(answer.body)
    if mode is Mode.CUT:
        answer.bytes_sent = len(body) // 2
    elif mode is Mode.SHORT and body:
        answer.body = body[: len(body) // 2]
        answer.headers = _shortened(dict(answer.headers), len(answer.body))
    elif mode is Mode.FLIP and body:
        at = len(body) // 2
        answer.body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    elif mode is Mode.LAST_PAGE:
        text = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", body)
        answer.body = text.replace(b"<IsTruncated>true<", b"<IsTruncated>false<")
    return answer


def _shortened(headers: dict[str, str], length: int) -> dict[str, str]:
    headers["Content-Length"] = str(length)
    if "Content-Range" in headers:
        begin = int(re.findall(r"\d+", headers["Content-Range"])[0])
        headers["Content-Range"] = f"bytes {begin}-{begin + length - 1}/{begin + length}"
    return headers


if __name__ == "__main__":
    with S3Server(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0) as running:
        print(running.url, flush=True)
        sys.stdin.read()  # ends with its parent

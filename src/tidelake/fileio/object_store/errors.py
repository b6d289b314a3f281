"""What a store's refusal means, in our errors: what is wrong, where, and what to do.

obstore tells statuses and codes in the text of its errors alone. They are read from there; the text
is cut before the client's own debugging lines, and anything secret is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from xml.sax.saxutils import unescape

from tidelake.errors import (
    StorageError,
    StorageRefusedError,
    TidelakeError,
    shortened,
)
from tidelake.fileio.file_io import file_missing
from tidelake.fileio.object_store.credentials import CredentialSource, NoKeysError

TEXT_MAX = 300
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)")
_BODY = re.compile(r"[\s:]*<(?:\?xml|Error|!doctype|html)\b.*", re.IGNORECASE | re.DOTALL)
"""An answer's body, which the client puts at the end of its text as it is."""
_REGION = re.compile(r"expecting '([\w-]+)'|<Region>([\w-]+)</Region>")
_SIGNED = re.compile(r"\b(sig|X-Amz-Signature|X-Amz-Security-Token|X-Amz-Credential)=[^&\s\"]+")
_AGENT = re.compile(
    r"://(?:169\.254\.(?:169\.254|170\.2|170\.23)|metadata(?:\.google\.internal)?)(?::\d+)?"
    r"/(?:latest|v\d|metadata|computeMetadata)/"
)
"""A request for credentials: to the machine's metadata service, or to a container's agent."""
_NO_CREDENTIALS = ("NoCredential", "InstanceProfile", "MissingCredential")
_PATH = re.compile(r"\S*/\S*")
_NOT_A_STORE = ("invalid list response", "ETag Header missing", "Got invalid", "Unable to extract")
_SKEW = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
_UNKNOWN_KEYS = frozenset(
    {
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "AuthenticationFailed"),
        *("InvalidToken", "InvalidTokenId", "AuthenticationRequired"),
    }
)
_EXPIRED = frozenset({"ExpiredToken", "TokenRefreshRequired", "ExpiredTokenException"})
_TOO_LONG = frozenset({"KeyTooLongError", "InvalidUri"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_WRONG_REGION = frozenset(
    {"AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException"}
)
_STYLE = re.compile(r"DomainForbidden|virtual.?host|path.?style", re.IGNORECASE)
"""Stores' words where the bucket must be in the host's name, or in the path."""
_READING = frozenset({"read", "look up", "open"})
_BROKEN_OFF = ("request or response body error",)
"""The client's words for an answer that ended in its middle."""
_RANGE_STATUS = 416
_PAST_END = ("Wanted range starting at", "bytes 0--1/0")
"""The client's words where a store gave other bytes, and MinIO's range of an empty object."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as messages show it, and the secrets they must not.

    Parameters
    ----------
    name : str
        ``"s3://bucket"``.
    endpoint : str
        Where it answers; empty for the cloud's own.
    credentials : CredentialSource, optional
        Who gives its keys for a while; they are in no message either.
    is_path_style : bool
        Whether the bucket is in the path of requests to that endpoint, not in the host's name.
    """

    name: str
    endpoint: str = ""
    given_secrets: tuple[str, ...] = ()
    credentials: CredentialSource | None = None
    is_path_style: bool = True

    def __repr__(self) -> str:
        return f"Bucket({self.name!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """All texts that are in no message."""
        given = () if self.credentials is None else self.credentials.secrets
        return (*self.given_secrets, *given)

    def shown(self, path: str) -> str:
        """A path as a URI."""
        return f"{self.name}{path}"

    def cause(self, error: BaseException) -> BaseException | None:
        """The client's error as the cause of ours; None if its text holds a secret."""
        text = str(error)
        is_clean = not _SIGNED.search(text) and not any(word in text for word in self.secrets)
        return error if is_clean else None

    @property
    def other_style(self) -> str:
        """What to set where the endpoint wants the bucket in the other place; else empty."""
        if not self.endpoint or not self.name.startswith("s3:"):
            return ""
        if self.is_path_style:
            return (
                " If it wants the bucket in its host's name, set 's3.path-style-access' = 'false'."
            )
        return " If it wants the bucket in the path, set 's3.path-style-access' = 'true'."

    @property
    def at(self) -> str:
        """The bucket with its endpoint, for a message."""
        return f"{self.name} at {self.endpoint}" if self.endpoint else self.name


@dataclass(frozen=True, slots=True)
class StoreRefusal:
    """What a client's error says."""

    status: int | None
    code: str
    text: str
    is_missing: bool
    region: str = ""
    is_untrusted: bool = False
    """Whether the server's certificate is not trusted."""
    no_keys: str = ""
    """Why no keys could be had; nothing was sent."""
    said: str = ""
    """Code and message of the store's answer."""

    @property
    def has_expired_keys(self) -> bool:
        """Whether the store says that the keys have expired."""
        return self.code in _EXPIRED

    @property
    def has_unknown_keys(self) -> bool:
        """Whether the store does not know the keys, or has forgotten them."""
        return self.code in _UNKNOWN_KEYS

    @property
    def is_unexplained(self) -> bool:
        """Whether the answer has no reason, as that to HEAD, and the keys may be one."""
        return not self.code and self.status in {400, 401, 403}

    @property
    def is_definite(self) -> bool:
        """Whether the store says that it did nothing and will not: no other try helps."""
        return (
            self.status in {301, 307, 401, 403, 501}
            or self.code in _EXPIRED | _NO_BUCKET | _WRONG_REGION | _TOO_LONG
            or self.is_missing
            or self.lacks_credentials
            or bool(self.no_keys)
            or "redirect without LOCATION" in self.text
        )

    @property
    def is_broken_off(self) -> bool:
        """Whether an answer began and ended in its middle, so that asking again may help."""
        return any(words in self.text for words in _BROKEN_OFF)

    @property
    def is_past_end(self) -> bool:
        """Whether a range begins at or after the object's end."""
        return self.status == _RANGE_STATUS or any(words in self.text for words in _PAST_END)

    @property
    def lacks_credentials(self) -> bool:
        """Whether no credentials were found, so nothing was sent.

        The text holds the request's URL. A table may be called ``InstanceProfile``: paths do not
        count.
        """
        plain = _PATH.sub(" ", self.text)
        return bool(_AGENT.search(self.text)) or any(word in plain for word in _NO_CREDENTIALS)


def refusal_of(error: BaseException, secrets: Iterable[str] = ()) -> StoreRefusal:
    """Read a client's error."""
    full = str(error)
    text = full.partition("\n\nDebug source")[0].strip()
    for secret in secrets:
        text = text.replace(secret, "***")
    text, said = _words_and_answer(_SIGNED.sub(r"\1=***", text))
    status, code, region = (pattern.search(full) for pattern in (_STATUS, _CODE, _REGION))
    return StoreRefusal(
        int(status.group(1)) if status else None,
        code.group(1) if code else "",
        shortened(" ".join(text.split()), TEXT_MAX),
        isinstance(error, FileNotFoundError),
        next(filter(None, region.groups()), "") if region else "",
        "InvalidCertificate" in full,
        shortened(full, TEXT_MAX) if isinstance(error, NoKeysError) else "",
        said,
    )


def _words_and_answer(text: str) -> tuple[str, str]:
    """The client's own words, and code and message of the answer without its XML or HTML."""
    body = _BODY.search(text)
    if body is None:
        return text, ""
    found = [pattern.search(body.group()) for pattern in (_CODE, _MESSAGE)]
    parts = [unescape(each.group(1)).strip() for each in found if each is not None]
    return text[: body.start()], shortened(": ".join(filter(None, parts)), TEXT_MAX)


def translated(
    error: BaseException, bucket: Bucket, path: str, verb: str, *, refused: bool = False
) -> TidelakeError:
    """Make our error of a client's.

    Parameters
    ----------
    refused : bool
        Whether it is certain that nothing was changed.
    """
    found = refusal_of(error, bucket.secrets)
    where = bucket.shown(path)
    of_storage = StorageRefusedError if refused or found.is_definite else StorageError
    if found.is_missing and found.code not in _NO_BUCKET and verb in _READING:
        return file_missing(path)
    for kind, explains in _EXPLAINED:
        sentence = explains(found, bucket)
        if sentence:
            message = f"Could not {verb} {where}: {sentence}"
            return of_storage(message, kind=kind, path=path)
    words = (
        f"{bucket.at} answered {found.status} ({found.said})"
        if found.said and found.status is not None
        else found.text.rstrip(".")
    )
    message = f"Could not {verb} {where}: {words}. Check the store and try again."
    return of_storage(message, path=path)


def _bucket(found: StoreRefusal, bucket: Bucket) -> str:
    if found.code not in _NO_BUCKET:
        return ""
    hint = "" if bucket.is_path_style else bucket.other_style
    return f"the bucket {bucket.at} does not exist: create it, or correct its name.{hint}"


def _style(found: StoreRefusal, bucket: Bucket) -> str:
    if not bucket.other_style or not _STYLE.search(found.said):
        return ""
    return f"{bucket.at} answered {found.status} ({found.said}).{bucket.other_style}"


def _region(found: StoreRefusal, bucket: Bucket) -> str:
    redirected = found.status in {301, 307} or "redirect without LOCATION" in found.text
    if found.code not in _WRONG_REGION and not redirected:
        return ""
    given = f"'s3.region' = '{found.region}'" if found.region else "'s3.region'"
    hint = bucket.other_style if redirected and bucket.is_path_style else ""
    return f"the bucket {bucket.name} is in another region: set {given} or AWS_REGION.{hint}"


def _skew(found: StoreRefusal, _: Bucket) -> str:
    wrong = found.code in _SKEW
    return "the clocks of this machine and the store differ: set this one's." if wrong else ""


def _keys(found: StoreRefusal, bucket: Bucket) -> str:
    if found.no_keys:
        return f"no keys for it could be had. {found.no_keys}"
    if found.has_expired_keys and bucket.credentials is not None:
        return (
            "the keys that the catalog's server gave have expired: try again, and if that stays so,"
            " compare its clock with the store's."
        )
    if found.has_expired_keys:
        return (
            "the temporary credentials have expired: renew them, or give credentials that renew"
            " themselves (a role, a web identity, a profile)."
        )
    if found.has_unknown_keys or found.status == 401:
        return f"the credentials are not those of {bucket.at} ({found.code or 'refused'})."
    if found.lacks_credentials:
        return (
            "no credentials were found: give them by storage={...}, by the environment, or by a"
            " role; for a public bucket set 'anonymous' = 'true'."
        )
    return ""


def _length(found: StoreRefusal, _: Bucket) -> str:
    return (
        "the store allows no name as long as this (S3: 1,024 bytes with all directories): shorten"
        " the value of the partition, or the path of the warehouse."
        if found.code in _TOO_LONG
        else ""
    )


def _permission(found: StoreRefusal, bucket: Bucket) -> str:
    if found.status != 403:
        return ""
    return f"these credentials have no right to it in {bucket.name} ({found.code or 'forbidden'})."


def _conditions(found: StoreRefusal, bucket: Bucket) -> str:
    return NO_CONDITIONS.format(at=bucket.at) if found.status == 501 else ""


def _no_store(found: StoreRefusal, bucket: Bucket) -> str:
    if not any(word in found.text for word in _NOT_A_STORE):
        return ""
    return f"{bucket.at} does not answer as an object store does: check the endpoint."


def _unreachable(found: StoreRefusal, bucket: Bucket) -> str:
    if found.status is not None or "error sending request" not in found.text:
        return ""
    if found.is_untrusted:
        return (
            f"{bucket.at} shows a certificate that is not trusted: give its authority's by the key"
            " 'ca-certificate'."
        )
    hint = "" if bucket.is_path_style else bucket.other_style
    return f"{bucket.at} cannot be reached, or did not answer: check endpoint and network.{hint}"


NO_CONDITIONS = (
    "{at} has no conditional writes, so two commits could overwrite each other there: use a store"
    " that has them, or a JDBC catalog with 'commit.lock' = 'catalog', which is as safe as Java's"
    " lock and no safer."
)
_EXPLAINED = (
    ("bucket_not_found", _bucket),
    (StorageError.default_kind, _style),
    ("wrong_region", _region),
    ("clock_skew", _skew),
    ("credentials", _keys),
    ("no_permission", _permission),
    ("name_too_long", _length),
    ("store_not_safe", _conditions),
    ("not_a_store", _no_store),
    ("unreachable", _unreachable),
)

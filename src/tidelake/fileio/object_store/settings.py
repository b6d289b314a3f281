"""What ``storage={...}`` may hold for an object store, by Paimon's, Hadoop's and our spellings.

1. A key loses its prefix (``s3.``, ``s3a.``, ``fs.s3a.``; ``gs.``, ``fs.gs.``; ``azure.``,
   ``fs.azure.``), and its dots and underscores become hyphens: ``fs.s3a.path.style.access`` and
   ``s3.path-style-access`` are the same.
2. The rest is looked up in :data:`KEYS`, by name or alias. An unknown key is refused.
3. Values are checked; secrets are kept apart, and are shown nowhere.

Keys of another storage are left aside, so that one catalog's options may serve several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.fileio.secret import (
    Secret,
    SecretCarrier,
    carried_secrets,
    carrier_of,
    remember_secrets,
)

PREFIXES = {
    "s3": ("fs.s3a.", "fs.s3.", "s3a.", "s3."),
    "gs": ("fs.gs.", "gs.", "gcs."),
    "az": ("fs.azure.", "azure.", "az.", "fs.abfs."),
    "cache": ("local-cache.",),
    "hdfs": (
        *("hdfs.", "dfs.", "fs.hdfs.", "fs.defaultFS", "fs.permissions.umask-mode", "hadoop."),
        *("hadoop-conf-dir", "security.kerberos.login."),
    ),
}
V = TypeVar("V")
_CREDENTIALS = {
    "s3": frozenset({"access-key", "secret-key", "session-token", "profile", "anonymous"}),
    "gs": frozenset(
        {"access-token", "service-account-key", "service-account-key-file", "anonymous"}
    ),
}
"""Keys that say who asks."""
_SENT = frozenset(
    {
        *("region", "access-key", "secret-key", "session-token"),
        *("access-token", "account-name", "account-key", "sas-token"),
    }
)
"""Keys that requests carry in their headers, or that sign them."""
SHOWN_PREFIX = {"s3": "s3.", "gs": "gs.", "az": "azure."}
_AZURE_KEY = re.compile(r"account-key-([a-z0-9]+)-(?:blob|dfs)-core-windows-net")
_LOCAL = re.compile(r"http://(?:localhost|127\.[\d.]+|\[::1\])(?::\d+)?(?:/\S*)?", re.IGNORECASE)
_DURATION = re.compile(r"(\d+)\s*(ms|s|min)")
_DURATION_MS = {"ms": 1, "s": 1_000, "min": 60_000}


@dataclass(frozen=True, slots=True)
class StorageKey:
    """One key.

    Parameters
    ----------
    kind : str
        ``"text"``, ``"flag"``, ``"count"``, ``"duration"`` or ``"url"``.
    is_secret : bool
        Whether its value is shown nowhere.
    """

    name: str
    kind: str
    effect: str
    schemes: tuple[str, ...] = ("s3", "gs", "az")
    is_secret: bool = False
    aliases: tuple[str, ...] = ()


_S3, _GS, _AZ = ("s3",), ("gs",), ("az",)
KEYS = (
    StorageKey("endpoint", "url", "where the store answers; of AWS it is known"),
    StorageKey(
        "region",
        "text",
        "AWS's region, `us-east-1` by default",
        _S3,
        aliases=("endpoint-region", "default-region"),
    ),
    StorageKey(
        "access-key", "text", "id of the key", _S3, aliases=("access-key-id", "accesskeyid")
    ),
    StorageKey(
        "secret-key",
        "text",
        "the key",
        _S3,
        is_secret=True,
        aliases=("secret-access-key", "accesskeysecret"),
    ),
    StorageKey(
        "session-token",
        "text",
        "of temporary credentials",
        _S3,
        is_secret=True,
        aliases=("token", "security-token", "securitytoken"),
    ),
    StorageKey("profile", "text", "a profile of `~/.aws`, SSO included; needs boto3", _S3),
    StorageKey("anonymous", "flag", "send no credentials", aliases=("skip-signature",)),
    StorageKey(
        "path-style-access",
        "flag",
        "the bucket is in the path, not before the endpoint's host; by default with an endpoint",
        _S3,
    ),
    StorageKey("access-token", "text", "an OAuth token, until it ends", _GS, is_secret=True),
    StorageKey("service-account-key", "text", "JSON of a service account", _GS, is_secret=True),
    StorageKey(
        "service-account-key-file",
        "text",
        "its file",
        _GS,
        aliases=("auth-service-account-json-keyfile", "service-account-path"),
    ),
    StorageKey("account-name", "text", "the storage account", _AZ, aliases=("account",)),
    StorageKey("account-key", "text", "its key", _AZ, is_secret=True, aliases=("access-key",)),
    StorageKey(
        "sas-token", "text", "a shared access signature", _AZ, is_secret=True, aliases=("sas-key",)
    ),
    StorageKey("client-id", "text", "of a service principal", _AZ),
    StorageKey("client-secret", "text", "of a service principal", _AZ, is_secret=True),
    StorageKey("tenant-id", "text", "of a service principal", _AZ),
    StorageKey(
        "allow-http",
        "flag",
        "allow `http://` to another machine: data, session tokens, SAS and OAuth go in clear",
    ),
    StorageKey("connection-ssl-enabled", "flag", "Hadoop's word for it: `false` allows `http://`"),
    StorageKey("ca-certificate", "text", "file with further certificates to trust, PEM"),
    StorageKey("proxy", "url", "a proxy's URL", aliases=("proxy-url",)),
    StorageKey("timeout", "duration", "of one request, `120 s` by default"),
    StorageKey(
        "retries",
        "count",
        "of a request that may be sent again, 10 by default",
        aliases=("attempts-maximum", "max-retries"),
    ),
)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Settings of one store; without secrets in ``repr`` and pickles.

    Parameters
    ----------
    scheme : str
        ``"s3"``, ``"gs"`` or ``"az"``.
    values : mapping of str to str
        What is not secret.
    """

    scheme: str
    values: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Secret] = field(default_factory=dict)
    lost_secrets: str = ""
    """The number of secrets that did not come along from another process; else empty."""

    def __reduce__(self) -> tuple[object, ...]:
        number = self.lost_secrets
        if self.secrets:
            number = remember_secrets(self._revealed())
        carrier = carrier_of(number) if number else None
        return (_restored, (self.scheme, dict(self.values), number, carrier))

    def _revealed(self) -> dict[str, str]:
        return {key: secret.reveal() for key, secret in self.secrets.items()}

    def text(self, name: str) -> str | None:
        """A value, secret or not; None if it was not given."""
        if name in self.secrets:
            return self.secrets[name].reveal()
        return self.values.get(name)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A flag."""
        value = self.values.get(name)
        return default if value is None else value == "true"

    @property
    def allows_http(self) -> bool:
        """Whether the user allows HTTP to another machine."""
        return _allows_http(self.values)

    def duration_ms(self, name: str, default: int) -> int:
        """A duration, ms."""
        value = self.values.get(name)
        return default if value is None else int(value)

    def with_account(self, account: str) -> StoreSettings:
        """Add Azure's account that a URI names."""
        return replace(self, values={**self.values, "account-name": account})

    def without_credentials(self) -> StoreSettings:
        """Leave out what says who asks."""
        own = _CREDENTIALS.get(self.scheme, frozenset())
        return replace(
            self,
            values={k: v for k, v in self.values.items() if k not in own},
            secrets={k: v for k, v in self.secrets.items() if k not in own},
        )


def is_storage_key(key: str) -> bool:
    """Whether an option of a catalog is one of its storage.

    Examples
    --------
    >>> is_storage_key("s3.endpoint"), is_storage_key("table-default.bucket")
    (True, False)
    """
    return any(key.startswith(prefix) for each in PREFIXES.values() for prefix in each)


def parse_settings(scheme: str, given: Mapping[str, object]) -> StoreSettings:
    """Parse and check ``storage={...}``.

    Raises
    ------
    InvalidInputError
        A key is unknown or its value is wrong; nothing of a secret is in the message.

    Examples
    --------
    >>> settings = parse_settings("s3", {"fs.s3a.access.key": "k", "s3.secret-key": "x"})
    >>> settings.values, settings.secrets
    ({'access-key': 'k'}, {'secret-key': ***})
    >>> parse_settings("s3", {"s3.acess-key": "k"})
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Storage key 's3.acess-key' is unknown. ...
    """
    found = _parsed(scheme, given)
    _check_whole(scheme, found.values, found.secrets)
    if found.secrets:  # so that they can be carried to processes to which copies go
        remember_secrets(found._revealed())
    return found


def known_settings(scheme: str, given: Mapping[str, object]) -> StoreSettings:
    """Parse what another program says of a storage: what is unknown here is left out.

    Examples
    --------
    >>> known_settings("s3", {"fs.s3a.access.key": "k", "fs.s3a.fast.upload": "true"}).values
    {'access-key': 'k'}
    """
    return _parsed(scheme, known_keys(scheme, given))


def known_keys(scheme: str, given: Mapping[str, V]) -> dict[str, V]:
    """Leave out keys of other storages, and those that are unknown here."""
    return {
        key: value
        for key, value in given.items()
        if key.startswith(PREFIXES[scheme]) and _found_key(scheme, key) is not None
    }


def _parsed(scheme: str, given: Mapping[str, object]) -> StoreSettings:
    values: dict[str, str] = {}
    secrets: dict[str, Secret] = {}
    for key, value in given.items():
        if _is_of_another(scheme, str(key)):
            continue
        found, account = _key(scheme, str(key))
        if account:
            values["account-name"] = account
        text = _checked(found, str(key), value)
        if found.is_secret:
            secrets[found.name] = Secret(text)
        else:
            values[found.name] = text
    return StoreSettings(scheme, values, secrets)


def _is_of_another(scheme: str, key: str) -> bool:
    mine = any(key.startswith(prefix) for prefix in PREFIXES[scheme])
    return not mine and is_storage_key(key)


def _key(scheme: str, key: str) -> tuple[StorageKey, str]:
    """A key that is known, and the account that Azure's names."""
    found = _found_key(scheme, key)
    if found is not None:
        return found
    names = [f"{SHOWN_PREFIX[scheme]}{each.name}" for each in KEYS if scheme in each.schemes]
    near = near_names(SHOWN_PREFIX[scheme] + _plain(scheme, key), names)
    message = f"Storage key '{shortened(key)}' is unknown.{near} Known are: {', '.join(names)}."
    raise InvalidInputError(message, kind="storage_key", key=key)


def _found_key(scheme: str, key: str) -> tuple[StorageKey, str] | None:
    plain = _plain(scheme, key)
    known = [each for each in KEYS if scheme in each.schemes]
    azure = _AZURE_KEY.fullmatch(plain) if scheme == "az" else None
    if azure is not None:
        return next(each for each in known if each.name == "account-key"), azure.group(1)
    for each in known:
        if plain == each.name or plain in each.aliases:
            return each, ""
    return None


def _plain(scheme: str, key: str) -> str:
    """A key without its prefix, with hyphens."""
    prefix = next((p for p in PREFIXES[scheme] if key.startswith(p)), "")
    return re.sub(r"[._]", "-", key.removeprefix(prefix)).lower()


def _checked(key: StorageKey, given: str, value: object) -> str:
    text = ("true" if value else "false") if isinstance(value, bool) else str(value).strip()
    problem = ""
    if not text:
        problem = "is empty"
    elif key.name in _SENT and not fits_header(text):
        problem = "holds characters that no key has, such as a line break: look at how it is read"
    elif key.kind == "flag" and text.lower() not in {"true", "false"}:
        problem = "must be true or false"
    elif key.kind == "count" and not text.isdecimal():
        problem = "must be a number"
    elif key.kind == "url" and not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", text):
        problem = "must be a URL such as 'https://host:9000', without a user"
    elif key.kind == "duration" and duration_in_ms(text) is None:
        problem = "must be a duration such as '30 s'"
    if problem:
        message = f"Storage key '{given}' {problem}."
        raise InvalidInputError(message, kind="storage_value", key=given)
    if key.kind == "duration":
        return str(duration_in_ms(text))
    return text.lower() if key.kind == "flag" else text


def fits_header(text: str) -> bool:
    """Whether a request's header can carry a text.

    Examples
    --------
    >>> fits_header("AKIA12"), fits_header("schlüssel")
    (True, False)
    """
    return text.isascii() and text.isprintable()


def duration_in_ms(text: str) -> int | None:
    """Parse a duration; None if it is none.

    Examples
    --------
    >>> duration_in_ms("30 s"), duration_in_ms("30")
    (30000, None)
    """
    found = _DURATION.fullmatch(text)
    return int(found.group(1)) * _DURATION_MS[found.group(2)] if found else None


def _check_whole(scheme: str, values: Mapping[str, str], secrets: Mapping[str, Secret]) -> None:
    """Refuse half of a pair, and HTTP to another machine that nobody allowed."""
    if scheme == "s3" and ("access-key" in values) != ("secret-key" in secrets):
        message = "Give both 's3.access-key' and 's3.secret-key', or neither."
        raise InvalidInputError(message, kind="storage_key")
    endpoint = values.get("endpoint", "")
    if is_in_clear(endpoint) and not _allows_http(values):
        raise http_refused(scheme, f"The endpoint {endpoint}")


def _allows_http(values: Mapping[str, str]) -> bool:
    return values.get("allow-http") == "true" or values.get("connection-ssl-enabled") == "false"


def is_in_clear(url: str) -> bool:
    """Whether what is sent to a URL can be read on the way: HTTP, to another machine.

    Examples
    --------
    >>> is_in_clear("http://minio:9000"), is_in_clear("http://127.0.0.1:9000")
    (True, False)
    """
    return url.lower().startswith("http://") and not _LOCAL.fullmatch(url)


def http_refused(scheme: str, what: str) -> InvalidInputError:
    """Make the error for an endpoint that is not encrypted."""
    message = (
        f"{what} is not encrypted: use https://, or set '{SHOWN_PREFIX[scheme]}allow-http' ="
        " 'true' if the network between is yours."
    )
    return InvalidInputError(message, kind="http_not_allowed")


def _restored(
    scheme: str, values: Mapping[str, str], number: str, carrier: SecretCarrier | None
) -> StoreSettings:
    found = carried_secrets(number, carrier) if number else {}
    secrets = {key: Secret(text) for key, text in (found or {}).items()}
    return StoreSettings(scheme, values, secrets, lost_secrets=number if found is None else "")

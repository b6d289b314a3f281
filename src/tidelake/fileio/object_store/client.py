"""Makes the clients of one bucket: one that sends a request once, one that tries again.

A conditional put must be sent once. A client that sends it again after a lost answer meets its own
object, and reports that another was first. All else may be sent again.

Credentials, first found first: a source of keys that end; those given; a profile (through boto3);
and what obstore finds by itself: the environment, a web identity, a container's agent, the
machine's metadata service.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidelake.errors import InvalidInputError, StorageRefusedError
from tidelake.fileio import _optional
from tidelake.fileio.location import Location
from tidelake.fileio.object_store.credentials import CredentialSource
from tidelake.fileio.object_store.errors import refusal_of
from tidelake.fileio.object_store.renewing import KeyProvider, RenewingCalls
from tidelake.fileio.object_store.settings import (
    StoreSettings,
    fits_header,
    http_refused,
    is_in_clear,
)

RETRIES_MAX = 10
RETRY_TIMEOUT_S = 60
FIRST_BACKOFF_MS = 50
TIMEOUT_MS = 120_000
"""Of a whole request: a part of 8 MiB on a slow line."""
CONNECT_TIMEOUT = "5s"
_ENV_PREFIX = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
_ENV_KEYS = {
    "access-key": "AWS_ACCESS_KEY_ID",
    "secret-key": "AWS_SECRET_ACCESS_KEY",
    "session-token": "AWS_SESSION_TOKEN",
}
_ENV_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True, slots=True)
class Clients:
    """The two clients of a bucket, and the functions that take them: obstore's."""

    once: Any
    steady: Any
    calls: Any


def open_clients(
    location: Location, settings: StoreSettings, credentials: CredentialSource | None = None
) -> Clients:
    """Make them; no request is sent.

    Raises
    ------
    UnsupportedError
        obstore is not installed, or boto3 where a profile is given.
    StorageRefusedError
        The settings came from another process without their secrets.
    InvalidInputError
        A key's value is none, a file that one names cannot be read, or the environment's endpoint
        is not encrypted.
    """
    if settings.lost_secrets:
        message = (
            f"The keys of {location} did not come along to this process, since keys are left out"
            " of what is sent between processes: give them here too by storage={...}, by the"
            " environment, or by a role."
        )
        raise StorageRefusedError(message, kind="secrets_left_out")
    obstore = _optional.obstore()
    retries = int(settings.text("retries") or RETRIES_MAX)
    backoff = {"init_backoff": timedelta(milliseconds=FIRST_BACKOFF_MS)}
    steady = {
        "max_retries": retries,
        "retry_timeout": timedelta(seconds=RETRY_TIMEOUT_S),
        "backoff": backoff,
    }
    common = {"client_options": _client_options(settings), **_config(location, settings)}
    calls: Any = obstore
    if credentials is None and location.scheme == "s3":
        _check_environment(settings)
    if credentials is not None:
        common["credential_provider"] = KeyProvider(credentials)
        calls = RenewingCalls(credentials)
    make = {"s3": obstore.store.S3Store, "gs": obstore.store.GCSStore}
    store = make.get(location.scheme, obstore.store.AzureStore)
    try:
        return Clients(
            store(location.authority, retry_config={"max_retries": 0}, **common),
            store(location.authority, retry_config=steady, **common),
            calls,
        )
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        # not as the cause: what it prints of a key is not known
        raise _not_taken(location, settings, error) from None


def _not_taken(
    location: Location, settings: StoreSettings, error: BaseException
) -> InvalidInputError:
    secrets = [secret.reveal() for secret in settings.secrets.values()]
    found = refusal_of(error, secrets)
    where = " (a certificate of 'ca-certificate')" if found.is_untrusted else ""
    message = (
        f"The storage keys of {location}, or those of the environment, are not taken:"
        f" {found.text.rstrip('.')}{where}. Correct them."
    )
    return InvalidInputError(message, kind="storage_value")


def _client_options(settings: StoreSettings) -> dict[str, Any]:
    timeout_ms = settings.duration_ms("timeout", TIMEOUT_MS)
    options: dict[str, Any] = {
        "timeout": f"{timeout_ms}ms",
        "connect_timeout": CONNECT_TIMEOUT,
        # obstore ignores AWS_ALLOW_HTTP once it is given options
        "allow_http": _allows_http(settings),
    }
    proxy, certificate = settings.text("proxy"), settings.text("ca-certificate")
    if proxy is not None:
        options["proxy_url"] = proxy
    if certificate is not None:
        options["root_certificate"] = _read(certificate, "ca-certificate")
    return options


def _allows_http(settings: StoreSettings) -> bool:
    """Whether the client may speak HTTP: allowed, or to an endpoint of this machine.

    The settings' endpoint was checked with them; obstore takes others from the environment.
    """
    told = os.environ.get(f"{_ENV_PREFIX[settings.scheme]}ALLOW_HTTP", "").lower()
    if settings.allows_http or told in {"true", "1"}:
        return True
    given = settings.values.get("endpoint")
    if given is not None:
        return given.lower().startswith("http://")
    names = _ENV_ENDPOINTS if settings.scheme == "s3" else ()
    found = {name: os.environ[name] for name in names if name in os.environ}
    for name, url in found.items():
        if is_in_clear(url):
            raise http_refused(settings.scheme, f"The endpoint of {name}")
    return any(url.lower().startswith("http://") for url in found.values())


def _read(file: str, key: str) -> str:
    try:
        return Path(file).expanduser().read_text()
    except OSError as error:
        message = f"Storage key '{key}': {file} cannot be read ({error.strerror})."
        raise InvalidInputError(message, kind="storage_value", key=key) from error
    except UnicodeDecodeError as error:
        message = f"Storage key '{key}': {file} is not a text file: give it as PEM."
        raise InvalidInputError(message, kind="storage_value", key=key) from error


def _config(location: Location, settings: StoreSettings) -> dict[str, Any]:
    match location.scheme:
        case "s3":
            return _s3(settings, location.authority)
        case "gs":
            return _gs(settings)
    return _azure(settings)


def _given(settings: StoreSettings, names: dict[str, str]) -> dict[str, Any]:
    found = {ours: settings.text(name) for name, ours in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _s3(settings: StoreSettings, bucket: str) -> dict[str, Any]:
    config = _given(
        settings,
        {
            "endpoint": "endpoint",
            "region": "region",
            "access-key": "access_key_id",
            "secret-key": "secret_access_key",
            "session-token": "session_token",
        },
    )
    if settings.flag("anonymous"):
        config["skip_signature"] = True
    path_style = settings.flag("path-style-access", default="endpoint" in config)
    if "endpoint" in config or "path-style-access" in settings.values:
        config["virtual_hosted_style_request"] = not path_style
    if "endpoint" in config and not path_style:
        config["endpoint"] = _of_bucket(config["endpoint"], bucket)
    profile = settings.text("profile")
    if profile is not None:
        config["credential_provider"] = _optional.boto3_credentials(profile)
    return config


def _check_environment(settings: StoreSettings) -> None:
    """Refuse keys of the environment that no request can carry: the client would panic."""
    if settings.text("profile") is not None or settings.flag("anonymous"):
        return
    for key, name in _ENV_KEYS.items():
        if settings.text(key) is None and not fits_header(os.environ.get(name, "")):
            message = (
                f"The environment's {name} holds characters that no key has, such as a line break:"
                " look at how it is set."
            )
            raise InvalidInputError(message, kind="storage_value", key=name)


def _of_bucket(endpoint: str, bucket: str) -> str:
    """An endpoint whose host begins with the bucket: the client takes no other."""
    host = urlsplit(endpoint).hostname or ""
    if host == bucket or host.startswith(f"{bucket}."):
        return endpoint
    if ":" in host or re.fullmatch(r"[\d.]+", host):
        message = (
            f"The endpoint {endpoint} is an address without names, so the bucket {bucket} cannot be"
            " in its host's name: set 's3.path-style-access' = 'true'."
        )
        raise InvalidInputError(message, kind="storage_value", key="s3.path-style-access")
    return endpoint.replace("://", f"://{bucket}.", 1)


def _gs(settings: StoreSettings) -> dict[str, Any]:
    config = _given(
        settings,
        {
            "service-account-key": "service_account_key",
            "service-account-key-file": "service_account_path",
        },
    )
    token = settings.text("access-token")
    if token is not None:
        config["credential_provider"] = GivenToken(token)
    endpoint = settings.text("endpoint")
    if endpoint is not None:
        config["service_account_key"] = _gs_key(endpoint, config.get("service_account_key"))
    if settings.flag("anonymous"):
        config["skip_signature"] = True
    return config


class GivenToken:
    """What obstore asks for an OAuth token that the user gave."""

    def __init__(self, token: str) -> None:
        self._given = {"token": token, "expires_at": None}

    def __call__(self) -> dict[str, Any]:
        """The token; nobody here knows when it ends."""
        return self._given


def _gs_key(endpoint: str, given: str | None) -> str:
    """The form in which GCS's client takes another endpoint: as part of a key."""
    if given is not None:
        message = "Storage key 'gs.endpoint' goes with no 'gs.service-account-key'."
        raise InvalidInputError(message, kind="storage_key")
    fields = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    return json.dumps({"gcs_base_url": endpoint, "disable_oauth": True, **fields})


def _azure(settings: StoreSettings) -> dict[str, Any]:
    config = _given(
        settings,
        {
            "endpoint": "endpoint",
            "account-name": "account_name",
            "account-key": "account_key",
            "sas-token": "sas_key",
            "client-id": "client_id",
            "client-secret": "client_secret",
            "tenant-id": "tenant_id",
        },
    )
    if settings.flag("anonymous"):
        config["skip_signature"] = True
    return config

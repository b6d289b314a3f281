"""Answers of a catalog's server that are no success, as the house's errors.

What the caller must know is whether the request may have taken effect:

==========================  =========================  =======================================
the server                  error                      effect
==========================  =========================  =======================================
cannot be reached           ServerUnreachableError     none: nothing was sent
429                         ServerBusyError            none
400                         InvalidInputError          none
401, 403, 3xx               StorageRefusedError        none
404 that names a resource   NotFoundError              none
other 404, 405              StorageRefusedError        none: it is no Paimon server
411, 413, 414, 415, 431     StorageRefusedError        none: a gateway refused its form or size
409                         AlreadyExistsError         none
501                         UnsupportedError           none
other 4xx, other 5xx        AnswerLostError            unknown: a gateway that gave up (408, 499)
                                                       may have passed the request on
no answer, half an answer   AnswerLostError            unknown
2xx that is not JSON        AnswerLostError            unknown: a gateway spoke, perhaps
==========================  =========================  =======================================

Source: Paimon's ``DefaultErrorHandler`` and ``ErrorResponse`` (1.3.1). They take any 404 for a
missing table; a gateway's page is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidelake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
    shortened,
)

NO_EFFECT = frozenset({404, 405, 411, 413, 414, 415, 431})
"""Further statuses after which nothing happened; of those not named here it is not known."""
CLIENT_ERRORS_FROM = 400


class ServerUnreachableError(StorageRefusedError):
    """Nothing was sent: the server cannot be reached."""

    default_kind = "rest_unreachable"


class TokenLeftOutError(StorageRefusedError):
    """Nothing was sent: this is a copy in a process to which the token did not come along."""

    default_kind = "catalog_elsewhere"


class ServerBusyError(StorageRefusedError):
    """The server took nothing: it has too much to do."""

    default_kind = "rest_busy"


class AnswerLostError(StorageError):
    """The request may have taken effect: its answer did not arrive, or is none."""

    default_kind = "rest_answer_lost"


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What a server answered.

    Parameters
    ----------
    location : str
        The header ``Location``.
    retry_after : str
        The header ``Retry-After``.
    """

    status: int
    body: bytes
    location: str = ""
    retry_after: str = ""

    def document(self) -> Any:
        """The body as JSON; None if it is empty.

        Raises
        ------
        ValueError
            It is no JSON, or too deep.
        """
        try:
            return json.loads(self.body) if self.body.strip() else None
        except RecursionError as error:
            message = "the JSON is too deep"
            raise ValueError(message) from error


def failure_of(answer: ServerAnswer, *, what: str, hide: Callable[[str], str]) -> TidelakeError:
    """Make the error for an answer that is no success.

    Parameters
    ----------
    answer : ServerAnswer
        The answer, of status 300 or more.
    what : str
        What was asked, such as ``"GET /v1/config"``.
    hide : callable
        Removes secrets from a text of the server.
    """
    said = _error_response(answer)
    words = shortened(hide(str(said.get("message") or ""))) if said else ""
    asked = f"The catalog's server answered {answer.status} to {what}"
    quoted = f": {words}" if words else "."
    if not quoted.endswith((".", "!", "?")):
        quoted += "."
    status = answer.status
    if status in {401, 403} and status == 401:
        message = (
            f"{asked}{quoted} The token is missing, wrong or expired: give a valid one by the"
            " option 'token', with 'token.provider' = 'bear'."
        )
        return StorageRefusedError(message, kind="rest_unauthorized")
    if status == 403:
        message = f"{asked}{quoted} Ask for the right, or take another token."
        return StorageRefusedError(message, kind="rest_forbidden")
    if status == 404 and said and said.get("resourceType"):
        kind = f"{str(said['resourceType']).lower()}_not_found"
        name = shortened(hide(str(said.get("resourceName") or "")))
        return NotFoundError(f"{asked}{quoted}", kind=kind, name=name or None)
    if status == 409:
        resource = str((said or {}).get("resourceType") or "resource").lower()
        return AlreadyExistsError(f"{asked}{quoted}", kind=f"{resource}_exists")
    if status == 429:
        message = f"{asked}{quoted} It has too much to do: try again later."
        return ServerBusyError(message)
    if status == 400:
        return InvalidInputError(f"{asked}{quoted}", kind="rest_bad_request")
    if status == 501:
        return UnsupportedError(f"{asked}{quoted} It does not offer this.", kind="rest_unsupported")
    if status >= CLIENT_ERRORS_FROM and status not in NO_EFFECT:
        return AnswerLostError(f"{asked}{quoted} It failed: try again later.")
    where = f" It points to {shortened(hide(answer.location))}." if answer.location else ""
    message = (
        f"{asked}, not as a Paimon catalog does.{where} Look at the option 'uri': it is the"
        " server's address without '/v1'."
    )
    return StorageRefusedError(message, kind="rest_answer")


def _error_response(answer: ServerAnswer) -> dict[str, Any] | None:
    """The server's own error; None if something else answered, such as a gateway's page."""
    try:
        document = answer.document()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None

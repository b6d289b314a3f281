"""Errors as text, for the way from an executor to the driver.

An error that every retry would repeat is not raised on an executor, where Spark would run the task
again and again. It is passed to the driver and raised there, once.
"""

from __future__ import annotations

import json

from tidelake import errors
from tidelake.errors import TidelakeError


def error_to_text(error: TidelakeError) -> str:
    """Encode an error for the driver.

    Examples
    --------
    >>> text = error_to_text(errors.InvalidInputError("No.", kind="row_kind", table="db.t"))
    >>> error_from_text(text)
    InvalidInputError('No.')
    """
    context = {key: str(value) for key, value in error.context.items()}
    return json.dumps(
        {
            "class": type(error).__name__,
            "message": error.message,
            "kind": error.kind,
            "context": context,
        }
    )


def error_from_text(text: str) -> TidelakeError:
    """Make the error again on the driver."""
    form = json.loads(text)
    known = getattr(errors, form["class"], TidelakeError)
    error: TidelakeError = known(form["message"], kind=form["kind"], **form["context"])
    return error

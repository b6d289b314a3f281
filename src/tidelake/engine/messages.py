"""Rows in messages: JSON, Avro and what else a topic holds."""

from __future__ import annotations

from tidelake.messages import BadMessage, Decoded, Decoder, Encoder, MessageFormat, format_named
from tidelake.messages.decoded import batch_of
from tidelake.messages.format_options import GivenOptions

__all__ = [
    "BadMessage",
    "Decoded",
    "Decoder",
    "Encoder",
    "GivenOptions",
    "MessageFormat",
    "batch_of",
    "format_named",
]

"""The replication protocol of PostgreSQL: :class:`ReplicationStream`.

After START_REPLICATION both sides send copy data, all numbers big endian::

    from the server   'w' + a message of the log, see log_messages
                      'k' 8 end of what was decoded, 8 time, 1 whether an answer is wanted
    from us           'r' 8 written, 8 flushed, 8 applied, 8 time, 1 whether an answer is wanted

A server that has sent everything is silent for half of ``wal_sender_timeout``; so we ask. Its
answer says to where it has decoded: all changes before that have been sent. That place can be
confirmed without having had a change, and then the slot of an idle database holds no log.
"""

from __future__ import annotations

import select
import struct
from typing import Any

from tidelake.cdc import _optional
from tidelake.cdc.postgres.connection import (
    connect,
    quote_name,
    quote_text,
    refusal,
    result_refusal,
)
from tidelake.cdc.postgres.log.log_messages import EPOCH_MS, Frames
from tidelake.cdc.postgres.position import lsn_text
from tidelake.cdc.postgres.settings import PostgresSettings
from tidelake.engine.env import Clock
from tidelake.errors import StorageError

_LOG, _KEEPALIVE = ord("w"), ord("k")
_ANSWER = struct.Struct(">cQQQqB")
FLUSH_MS_MAX = 10_000
"""How long one answer of 34 bytes may take to leave."""


class ReplicationStream:
    """One connection that reads a slot.

    Parameters
    ----------
    start_lsn : int
        From where; the server begins at the confirmed position if that is later.

    Attributes
    ----------
    decoded_lsn : int
        To where the server has decoded, by its last answer; 0 before the first.
    """

    def __init__(self, settings: PostgresSettings, start_lsn: int, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._confirmed_lsn = 0
        self.decoded_lsn = 0
        self._errors = _optional.psycopg().Error
        self._warning = ""
        self._connection = connect(settings, replication=True)
        self._connection.add_notice_handler(self._warned)
        try:
            self._begin(start_lsn)
        except BaseException:
            self._connection.close()
            raise

    def _begin(self, start_lsn: int) -> None:
        pq = _optional.psycopg_pq()
        wire = self._connection.pgconn
        options = {"proto_version": "1"}
        options["publication_names"] = quote_name(self._settings.publication)
        options["messages"] = "true"
        listed = ", ".join(f"{key} {quote_text(value)}" for key, value in options.items())
        command = (
            f"START_REPLICATION SLOT {quote_name(self._settings.slot)} LOGICAL"
            f" {lsn_text(start_lsn)} ({listed})"
        )
        result = wire.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise result_refusal(result, self._settings)
        wire.nonblocking = 1

    def read(self, frames: Frames, *, count_max: int, bytes_max: int) -> None:
        """Take what has arrived, without waiting, and put it at the end of the frames.

        Raises
        ------
        StorageError
            The connection broke, or the server ended it.
        """
        take = self._connection.pgconn.get_copy_data
        data, lengths = frames.data, frames.lengths
        is_fresh = False
        # about 0.5 us a message
        while len(lengths) < count_max and len(data) < bytes_max:
            length, frame = take(1)
            if length > 0:
                if frame[0] == _LOG:
                    data += frame
                    lengths.append(length)
                elif frame[0] == _KEEPALIVE:
                    # what the server has decoded it has sent before
                    self._keepalive(bytes(frame))
            elif length < 0:
                self._ended()
            elif is_fresh:
                break
            else:
                self._consume()
                is_fresh = True
                continue
            is_fresh = False

    def _warned(self, notice: Any) -> None:
        """Keep a warning that changes are left out; an error here would be swallowed.

        Of a publication that is missing PostgreSQL 18 only warns, and sends nothing.
        """
        if "skipped loading publication" in (notice.message_primary or ""):
            self._warning = f"{notice.message_primary}: the publication does not exist"

    def _consume(self) -> None:
        try:
            self._connection.pgconn.consume_input()
        except self._errors as error:
            raise refusal(str(error), None, self._settings) from error
        if self._warning:
            raise refusal(self._warning, None, self._settings)

    def _ended(self) -> None:
        result = self._connection.pgconn.get_result()
        if result is not None and result.error_message:
            raise result_refusal(result, self._settings)
        message = f"The stream of the slot '{self._settings.slot}' ended: the server stopped it."
        raise StorageError(message, kind="cdc_unreachable")

    def _keepalive(self, frame: bytes) -> None:
        lsn, _, wants = struct.unpack_from(">QqB", frame, 1)
        self.decoded_lsn = max(self.decoded_lsn, lsn)
        if wants:
            self.answer()

    def wait(self, duration_ms: float) -> None:
        """Wait until something arrives."""
        poll = select.poll()
        poll.register(self._connection.pgconn.socket, select.POLLIN)
        poll.poll(max(0, int(duration_ms)))

    def confirm(self, lsn: int) -> None:
        """Say to where the log is no longer needed."""
        self._confirmed_lsn = max(self._confirmed_lsn, lsn)
        self.answer()

    def answer(self, *, wants: bool = False) -> None:
        """Say that we live and what is confirmed, and ask the server to do so."""
        now_us = (self._clock.now_ms() - EPOCH_MS) * 1000
        lsn = self._confirmed_lsn
        wire = self._connection.pgconn
        try:
            wire.put_copy_data(_ANSWER.pack(b"r", lsn, lsn, lsn, now_us, wants))
            poll = select.poll()
            poll.register(wire.socket, select.POLLOUT)
            while wire.flush():
                if not poll.poll(FLUSH_MS_MAX):
                    message = "PostgreSQL takes no answer of ours."
                    raise StorageError(message, kind="cdc_unreachable")
        except self._errors as error:
            raise refusal(str(error), None, self._settings) from error

    def close(self) -> None:
        """End the connection; the slot is free a moment later."""
        self._connection.close()

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
from tidelake.cdc.postgres.connection import connect, quote_name, quote_text, refusal
from tidelake.cdc.postgres.log.log_messages import EPOCH_MS
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
            raise self._refused(result)
        wire.nonblocking = 1

    def _refused(self, result: Any) -> Exception:
        pq = _optional.psycopg_pq()
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        said = result.error_message.decode(errors="replace")
        return refusal(said, state.decode() if state else None, self._settings)

    def read(self, frames: list[bytes], *, count_max: int, bytes_max: int) -> int:
        """Take what has arrived, without waiting.

        Parameters
        ----------
        frames : list
            Frames of log messages are put at its end.

        Returns
        -------
        int
            Bytes taken.

        Raises
        ------
        StorageError
            The connection broke, or the server ended it.
        """
        wire = self._connection.pgconn
        taken = 0
        add = frames.append
        # about 1.5 us a message
        for _ in range(count_max):
            length, frame = wire.get_copy_data(1)
            if length > 0:
                if frame[0] == _LOG:
                    add(frame)
                    taken += length
                    if taken >= bytes_max:
                        break
                elif frame[0] == _KEEPALIVE:
                    self._keepalive(bytes(frame))
                    # what was decoded holds for the frames before it
            elif length == 0:
                self._consume(wire)
                length, frame = wire.get_copy_data(1)
                if length == 0:
                    break
                if length < 0:
                    self._ended(wire)
                if frame[0] == _LOG:
                    add(frame)
                    taken += length
                elif frame[0] == _KEEPALIVE:
                    self._keepalive(bytes(frame))
            else:
                self._ended(wire)
        return taken

    def _warned(self, notice: Any) -> None:
        """Keep a warning that changes are left out; an error here would be swallowed.

        Of a publication that is missing PostgreSQL 18 only warns, and sends nothing.
        """
        if "skipped loading publication" in (notice.message_primary or ""):
            self._warning = f"{notice.message_primary}: the publication does not exist"

    def _consume(self, wire: Any) -> None:
        try:
            wire.consume_input()
        except self._errors as error:
            raise refusal(str(error), None, self._settings) from error
        if self._warning:
            raise refusal(self._warning, None, self._settings)

    def _ended(self, wire: Any) -> None:
        result = wire.get_result()
        if result is not None and result.error_message:
            raise self._refused(result)
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

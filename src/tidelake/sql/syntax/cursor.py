"""A cursor over the tokens of a statement; its errors show the token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError, near_names
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import Token, error_at

T = TypeVar("T")
PARTS_MAX = 3


class Cursor:
    """Reads tokens in order."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.index = 0

    @property
    def token(self) -> Token | None:
        """The next token; None at the end."""
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def position(self) -> int:
        """Offset of the next token."""
        token = self.token
        return token.start if token is not None else self.tokens[-1].end if self.tokens else 0

    @property
    def end(self) -> int:
        """End of the last token that was read."""
        return self.tokens[self.index - 1].end if self.index else 0

    def rest(self) -> str:
        """The unread text."""
        return "" if self.token is None else self.text[self.token.start : self.tokens[-1].end]

    def peek(self, *keywords: str) -> bool:
        """True if these keywords come next."""
        following = self.tokens[self.index : self.index + len(keywords)]
        return len(following) == len(keywords) and all(
            w.upper == k for w, k in zip(following, keywords, strict=True)
        )

    def accept(self, *keywords: str) -> bool:
        """Read these keywords if they come next."""
        if not self.peek(*keywords):
            return False
        self.index += len(keywords)
        return True

    def expect(self, *keywords: str, why: str = "") -> None:
        """Read these keywords; refuse anything else."""
        for keyword in keywords:
            if not self.accept(keyword):
                raise self.error(f"'{keyword}' is expected here{why}, not {self.next_text()}.")

    def if_exists(self) -> Literal["error", "ignore"]:
        """Read IF EXISTS; return what to do if the object is missing."""
        return "ignore" if self.accept("IF", "EXISTS") else "error"

    def if_not_exists(self) -> Literal["error", "ignore"]:
        """Read IF NOT EXISTS; return what to do if the object exists."""
        return "ignore" if self.accept("IF", "NOT", "EXISTS") else "error"

    def expect_end(self) -> None:
        """Refuse text after the statement."""
        if self.token is not None:
            raise self.error(f"The statement should end here, but {self.next_text()} follows.")

    def name(self, what: str) -> str:
        """Read a name."""
        token = self.token
        if token is None or not token.is_name:
            raise self._missing(
                what, "a name, in backticks if it is a keyword or has special characters"
            )
        self.index += 1
        return token.text.replace("``", "`") if token.is_quoted else token.text

    def string(self, what: str) -> str:
        """Read a string in quotes."""
        token = self.token
        if token is None or not token.is_string:
            raise self._missing(what, "a string in quotes")
        self.index += 1
        return token.text

    def number(self, what: str) -> int:
        """Read a whole number."""
        token = self.token
        if token is None or not token.text.isdecimal() or token.is_string:
            raise self._missing(what, "a whole number")
        self.index += 1
        return int(token.text)

    def table_name(self, what: str = "table") -> TableName:
        """Read a name of up to three parts."""
        start = self.position
        parts = [self.name(what)]
        while self.peek("."):
            self.index += 1
            parts.append(self.name(what))
        if len(parts) > PARTS_MAX:
            raise self.error("A name has at most three parts: catalog.database.table.", start=start)
        return TableName(tuple(parts), start)

    def parenthesized(self, what: str, item: Callable[[], T]) -> list[T]:
        """Read a comma-separated list in parentheses."""
        self.expect("(", why=f" before {what}")
        items = [item()]
        while self.accept(","):
            items.append(item())
        self.expect(")", why=f" after {what}")
        return items

    def options(self, what: str = "options") -> dict[str, str]:
        """Read ``('key' = 'value', ...)``; a key may be unquoted words with dots."""
        given: dict[str, str] = {}

        def pair() -> None:
            start = self.position
            key = self.option_key()
            if not self.accept("="):
                self.accept("==")
            value = self.option_value(f"value of '{key}'")
            if key in given:
                raise self.error(f"Option '{key}' is given twice.", start=start)
            given[key] = value

        if self.peek("(", ")"):
            self.index += 2
            return given
        self.parenthesized(what, pair)
        return given

    def option_key(self) -> str:
        """Read an option's key: a string, or words with dots and dashes."""
        token = self.token
        if token is None or token.upper in {")", ",", "=", "."}:
            raise self._missing("an option", "its name in quotes, as in 'bucket' = '4'")
        self.index += 1
        if token.is_quoted:
            return token.text
        parts = [token.text]
        end = token.end
        while (
            (following := self.token) is not None
            and following.start == end
            and not following.is_quoted
            and following.text not in {"=", ")", ",", "(", "=="}
        ):
            parts.append(following.text)
            end = following.end
            self.index += 1
        return "".join(parts)

    def option_value(self, what: str) -> str:
        """Read an option's value: a string, a number, true or false."""
        token = self.token
        sign = ""
        if token is not None and token.text == "-" and not token.is_quoted:
            sign, self.index = "-", self.index + 1
            token = self.token
        if token is None or not (
            token.is_string or token.is_number or token.upper in {"TRUE", "FALSE"}
        ):
            raise self._missing(what, "a string in quotes")
        self.index += 1
        return sign + (token.text.lower() if token.upper in {"TRUE", "FALSE"} else token.text)

    def choice(self, keywords: Sequence[str], what: str) -> str:
        """Read one of the keywords."""
        for keyword in keywords:
            if self.accept(keyword):
                return keyword
        token = self.token
        near = near_names(token.upper, keywords) if token is not None else ""
        raise self.error(
            f"{what} must be one of {', '.join(keywords)}, not {self.next_text()}.{near}"
        )

    def error(
        self,
        message: str,
        *,
        start: int | None = None,
        kind: str = "sql_syntax",
        error: type[TidelakeError] = InvalidInputError,
    ) -> TidelakeError:
        """Make an error that shows the next token, or the one at `start`."""
        ellipsis_at = self._ellipsis()
        if ellipsis_at is not None:
            message = "'...' stands for omitted text: write it out."
            return error_at(self.text, ellipsis_at, message, kind="sql_ellipsis")
        return error_at(
            self.text, self.position if start is None else start, message, kind=kind, error=error
        )

    def unsupported(
        self, message: str, *, start: int | None = None, kind: str = "sql_clause"
    ) -> TidelakeError:
        """Make the error for valid SQL that is not supported."""
        return self.error(message, start=start, kind=kind, error=UnsupportedError)

    def next_text(self) -> str:
        """The next token in quotes, for messages."""
        token = self.token
        return "the end" if token is None else f"'{token.text}'"

    def _missing(self, what: str, form: str) -> TidelakeError:
        return self.error(
            f"The {what.removeprefix('the ')} is missing here: {form}; not {self.next_text()}."
        )

    def _ellipsis(self) -> int | None:
        """Offset of ``...``, which documentation writes for omitted text."""
        dots = self.tokens[max(0, self.index - 1) : self.index + 4]
        for first, second, third in zip(dots, dots[1:], dots[2:], strict=False):
            if first.text == second.text == third.text == "." and not first.is_quoted:
                return first.start
        return None

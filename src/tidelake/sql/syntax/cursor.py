"""A cursor over the words of a statement, with the errors that a reader of SQL raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tidelake.errors import InvalidInputError, TidelakeError, UnsupportedError, near_names
from tidelake.sql.syntax.name import TableName
from tidelake.sql.syntax.tokens import Word, fault

__all__ = ["Reader"]

T = TypeVar("T")
PARTS_MAX = 3


class Reader:
    """Reads words one after the other.

    Parameters
    ----------
    text : str
        The whole text that the user gave, for messages.
    words : sequence of Word
        Those of one statement.
    """

    def __init__(self, text: str, words: Sequence[Word]) -> None:
        self.text = text
        self.words = words
        self.index = 0

    @property
    def word(self) -> Word | None:
        """The next word; None at the end."""
        return self.words[self.index] if self.index < len(self.words) else None

    @property
    def place(self) -> int:
        """Where the next word is."""
        word = self.word
        return word.start if word is not None else self.words[-1].end if self.words else 0

    @property
    def end(self) -> int:
        """Where the last word that was read ends."""
        return self.words[self.index - 1].end if self.index else 0

    def rest(self) -> str:
        """What is not read yet, as it was written."""
        return "" if self.word is None else self.text[self.word.start : self.words[-1].end]

    def sees(self, *keywords: str) -> bool:
        """Whether these keywords come next."""
        following = self.words[self.index : self.index + len(keywords)]
        return len(following) == len(keywords) and all(
            w.upper == k for w, k in zip(following, keywords, strict=True)
        )

    def take(self, *keywords: str) -> bool:
        """Read these keywords, if they come next."""
        if not self.sees(*keywords):
            return False
        self.index += len(keywords)
        return True

    def need(self, *keywords: str, why: str = "") -> None:
        """Read these keywords, which must come next."""
        for keyword in keywords:
            if not self.take(keyword):
                raise self.fault(f"'{keyword}' must stand here{why}, not {self._found()}.")

    def finish(self) -> None:
        """Refuse what stands behind the statement."""
        if self.word is not None:
            raise self.fault(f"The statement should end here, but {self._found()} follows.")

    def name(self, what: str) -> str:
        """Read a name."""
        word = self.word
        if word is None or not word.is_name:
            raise self._missing(
                what, "a name, in backticks where it is a word of SQL or has other signs"
            )
        self.index += 1
        return word.text.replace("``", "`") if word.is_quoted else word.text

    def string(self, what: str) -> str:
        """Read a string in quotes."""
        word = self.word
        if word is None or not word.is_string:
            raise self._missing(what, "a string in quotes")
        self.index += 1
        return word.text

    def number(self, what: str) -> int:
        """Read a whole number."""
        word = self.word
        if word is None or not word.text.isdecimal() or word.is_string:
            raise self._missing(what, "a whole number")
        self.index += 1
        return int(word.text)

    def table_name(self, what: str = "table") -> TableName:
        """Read a name of up to three parts."""
        start = self.place
        parts = [self.name(what)]
        while self.sees("."):
            self.index += 1
            parts.append(self.name(what))
        if len(parts) > PARTS_MAX:
            raise self.fault("A name has at most three parts: catalog.database.table.", start=start)
        return TableName(tuple(parts), start)

    def within(self, what: str, item: Callable[[], T]) -> list[T]:
        """Read a list in parentheses."""
        self.need("(", why=f" before {what}")
        items = [item()]
        while self.take(","):
            items.append(item())
        self.need(")", why=f" behind {what}")
        return items

    def options(self, what: str = "options") -> dict[str, str]:
        """Read ``('key' = 'value', ...)``; keys may be plain words with dots."""
        given: dict[str, str] = {}

        def pair() -> None:
            start = self.place
            key = self.key()
            if not self.take("="):
                self.take("==")
            value = self.value(f"value of '{key}'")
            if key in given:
                raise self.fault(f"Option '{key}' is given twice.", start=start)
            given[key] = value

        if self.sees("(", ")"):
            self.index += 2
            return given
        self.within(what, pair)
        return given

    def key(self) -> str:
        """Read an option's name: a string, or words with dots and dashes."""
        word = self.word
        if word is None or word.upper in {")", ",", "=", "."}:
            raise self._missing("an option", "its name in quotes, as in 'bucket' = '4'")
        self.index += 1
        if word.is_quoted:
            return word.text
        parts = [word.text]
        end = word.end
        while (
            (following := self.word) is not None
            and following.start == end
            and not following.is_quoted
            and following.text not in {"=", ")", ",", "(", "=="}
        ):
            parts.append(following.text)
            end = following.end
            self.index += 1
        return "".join(parts)

    def value(self, what: str) -> str:
        """Read an option's value: a string, a number or true or false."""
        word = self.word
        sign = ""
        if word is not None and word.text == "-" and not word.is_quoted:
            sign, self.index = "-", self.index + 1
            word = self.word
        if word is None or not (
            word.is_string or word.is_number or word.upper in {"TRUE", "FALSE"}
        ):
            raise self._missing(what, "a string in quotes")
        self.index += 1
        return sign + (word.text.lower() if word.upper in {"TRUE", "FALSE"} else word.text)

    def choice(self, keywords: Sequence[str], what: str) -> str:
        """Read one of some keywords."""
        for keyword in keywords:
            if self.take(keyword):
                return keyword
        word = self.word
        near = near_names(word.upper, keywords) if word is not None else ""
        raise self.fault(f"{what} must be one of {', '.join(keywords)}, not {self._found()}.{near}")

    def fault(
        self,
        message: str,
        *,
        start: int | None = None,
        kind: str = "sql_syntax",
        error: type[TidelakeError] = InvalidInputError,
    ) -> TidelakeError:
        """Make an error that shows the next word, or the one at `start`."""
        ellipsis_at = self._ellipsis()
        if ellipsis_at is not None:
            message = "'...' stands for something that was left out: write what belongs there."
            return fault(self.text, ellipsis_at, message, kind="sql_ellipsis")
        return fault(
            self.text, self.place if start is None else start, message, kind=kind, error=error
        )

    def refusal(
        self, message: str, *, start: int | None = None, kind: str = "sql_clause"
    ) -> TidelakeError:
        """Make the error for what is SQL, but not covered."""
        return self.fault(message, start=start, kind=kind, error=UnsupportedError)

    def _found(self) -> str:
        word = self.word
        return "the end" if word is None else f"'{word.text}'"

    def _missing(self, what: str, form: str) -> TidelakeError:
        return self.fault(
            f"The {what.removeprefix('the ')} is missing here: {form}; not {self._found()}."
        )

    def _ellipsis(self) -> int | None:
        """Where ``...`` is next, which pages write for what they leave out."""
        dots = self.words[max(0, self.index - 1) : self.index + 4]
        for first, second, third in zip(dots, dots[1:], dots[2:], strict=False):
            if first.text == second.text == third.text == "." and not first.is_quoted:
                return first.start
        return None

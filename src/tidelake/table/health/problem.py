"""What a check of a table's files finds, as values."""

from __future__ import annotations

from dataclasses import dataclass

SHOWN_MAX = 100
NOT_THERE = "the file is not there"


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A file that is lost, damaged, or not as others say.

    Parameters
    ----------
    kind : str
        What is wrong: ``schema``, ``hint``, ``snapshot``, ``tag``, ``changelog``, ``manifest``,
        ``data_file``, ``index``, ``statistics``, ``keys`` or ``totals``.
    path : str
        The file.
    what : str
        What is wrong with it.
    snapshots, tags : tuple
        The versions that cannot be read because of it, or not as they were written.
    """

    kind: str
    path: str
    what: str
    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """The problem as plain values, for JSON."""
        return {
            "kind": self.kind,
            "path": self.path,
            "what": self.what,
            "snapshots": list(self.snapshots),
            "tags": list(self.tags),
        }

    def __str__(self) -> str:
        of = [f"snapshot {n}" for n in self.snapshots[:3]] + [f"tag {t}" for t in self.tags[:3]]
        more = len(self.snapshots) + len(self.tags) - len(of)
        text = f"{self.kind}: {self.what} [{self.path}]"
        return f"{text} of {', '.join(of)}{f' and {more} more' if more else ''}" if of else text


@dataclass(frozen=True, slots=True)
class FilesReport:
    """The answer of a check of a table's files.

    Parameters
    ----------
    snapshots_count, files_count : int
        Snapshots and tags that were checked, and the files that they name.
    read_data : bool
        Whether the rows of data files were read.
    whole : tuple of int
        Snapshots without a problem, ascending.
    """

    table: str
    problems: tuple[FileProblem, ...]
    snapshots_count: int
    files_count: int
    read_data: bool
    whole: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def __repr__(self) -> str:
        found = f"{len(self.problems)} problems" if self.problems else "no problem"
        how = "rows read" if self.read_data else "names and sizes alone"
        head = (
            f"<FilesReport of {self.table}: {found} in {self.snapshots_count} versions and"
            f" {self.files_count} files, {how}"
        )
        return "\n".join([head, *map(str, self.problems[:SHOWN_MAX])]) + ">"

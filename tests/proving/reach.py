"""Which files a table needs, told by its JSON and Avro read directly, not by us.

`needed` is what a reader of any snapshot, tag, branch or kept changelog opens. `may_stay` is that
and what a kept changelog without a producer has beside it: the files that its snapshots removed,
which go with it.
"""

from __future__ import annotations

import json
from collections.abc import Container
from dataclasses import dataclass, field

from proving.fsck import _avro, walk

DIRECTORIES = ("snapshot", "tag", "changelog", "schema", "branch", "consumer")


@dataclass
class Reach:
    """Paths below the table's directory."""

    needed: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)

    @property
    def may_stay(self) -> set[str]:
        return self.needed | self.beside


@dataclass(frozen=True)
class Named:
    """What a state names: paths of metadata, and names of data and index files."""

    metadata: frozenset[str]
    files: frozenset[str]


def reach(
    fileio,
    location: str,
    *,
    untold: Container[int] = (),
    known: dict[tuple, Named] | None = None,
) -> Reach:
    """What the table at `location` needs of its data, changelog, index and metadata files.

    Of snapshots that are `untold` the changelog has expired. What is `known` of a state is not read
    again, as names are never used twice: whoever asks looks whether what it names is there.
    """
    found = Reach()
    known = {} if known is None else known
    files = {path.removeprefix(f"{location}/") for path, _ in walk(fileio, location)}
    by_name = {}
    for path in files:
        by_name.setdefault(path.rsplit("/", 1)[1], []).append(path)

    def document(path):
        return json.loads(fileio.read_bytes(f"{location}/{path}"))

    for path in files:
        name = path.rsplit("/", 1)[1]
        if name.startswith("snapshot-"):
            _of_state(fileio, location, document(path), found.needed, by_name, known)
            if int(name.removeprefix("snapshot-")) not in untold:
                _of_changelog(fileio, location, document(path), found.needed, by_name)
        elif name.startswith("tag-"):
            _of_state(fileio, location, document(path), found.needed, by_name, known)
        elif name.startswith("changelog-") and path.startswith("changelog/"):
            _of_kept(fileio, location, document(path), found, by_name, files)
    oldest = min(int(p.rsplit("-", 1)[1]) for p in files if p.startswith("snapshot/snapshot-"))
    if any(p.startswith("changelog/changelog-") for p in files):
        # what the oldest snapshot removed was written by those whose changelog is kept
        delta = document(f"snapshot/snapshot-{oldest}")["deltaManifestList"]
        for entry in _entries(fileio, location, delta):
            found.beside.update(_paths(entry, by_name))
    return found


def stray(fileio, location: str) -> set[str]:
    """Files that nothing needs, by their names below the table's directory."""
    files = {path.removeprefix(f"{location}/") for path, _ in walk(fileio, location)}
    data = {path for path in files if path.split("/", 1)[0] not in DIRECTORIES}
    return data - reach(fileio, location).may_stay


def named_by_tags(fileio, location: str) -> set[str]:
    """The changelogs that tags and branches name, as far as they are there: they may stay or go."""
    files = {path.removeprefix(f"{location}/") for path, _ in walk(fileio, location)}
    by_name: dict[str, list[str]] = {}
    for path in files:
        by_name.setdefault(path.rsplit("/", 1)[1], []).append(path)
    found: set[str] = set()
    for path in files:
        if "/tag-" not in f"/{path}" and not path.startswith("branch/"):
            continue
        if not path.rsplit("/", 1)[1].startswith(("tag-", "snapshot-")):
            continue
        name = json.loads(fileio.read_bytes(f"{location}/{path}"))["changelogManifestList"]
        if name is None or f"manifest/{name}" not in files:
            continue
        found.add(f"manifest/{name}")
        for manifest in _avro(fileio, f"{location}/manifest/{name}"):
            own = f"manifest/{manifest['_FILE_NAME']}"
            found.add(own)
            if own in files:
                for entry in _avro(fileio, f"{location}/{own}"):
                    found.update(_paths(entry, by_name))
    return found


def missing(fileio, location: str, *, untold: Container[int] = ()) -> set[str]:
    """Files that something needs and that are not there."""
    files = {path.removeprefix(f"{location}/") for path, _ in walk(fileio, location)}
    return reach(fileio, location, untold=untold).needed - files


def _of_state(fileio, location, snapshot, needed, by_name, known) -> None:
    lists = ("baseManifestList", "deltaManifestList", "indexManifest", "statistics")
    key = tuple(snapshot.get(name) for name in lists)
    if key not in known:
        known[key] = _named(fileio, location, snapshot)
    needed.update(known[key].metadata)
    for name in known[key].files:
        needed.update(by_name.get(name, [f"lost/{name}"]))


def _named(fileio, location, snapshot) -> Named:
    live, needed, files = {}, set(), set()
    for name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
        needed.add(f"manifest/{name}")
        for manifest in _avro(fileio, f"{location}/manifest/{name}"):
            needed.add(f"manifest/{manifest['_FILE_NAME']}")
            for entry in _avro(fileio, f"{location}/manifest/{manifest['_FILE_NAME']}"):
                file = entry["_FILE"]
                key = (entry["_PARTITION"], entry["_BUCKET"], file["_LEVEL"], file["_FILE_NAME"])
                if entry["_KIND"] == 0:
                    live[key] = entry
                else:
                    del live[key]
    for entry in live.values():
        files.update((entry["_FILE"]["_FILE_NAME"], *entry["_FILE"]["_EXTRA_FILES"]))
    index = snapshot.get("indexManifest")
    if index:
        needed.add(f"manifest/{index}")
        files.update(e["_FILE_NAME"] for e in _avro(fileio, f"{location}/manifest/{index}"))
    if snapshot.get("statistics"):
        needed.add(f"statistics/{snapshot['statistics']}")
    return Named(frozenset(needed), frozenset(files))


def _of_changelog(fileio, location, snapshot, needed, by_name) -> None:
    name = snapshot["changelogManifestList"]
    if name is None:
        return
    needed.add(f"manifest/{name}")
    for manifest in _avro(fileio, f"{location}/manifest/{name}"):
        needed.add(f"manifest/{manifest['_FILE_NAME']}")
    for entry in _entries(fileio, location, name):
        needed.update(_paths(entry, by_name))


def _of_kept(fileio, location, snapshot, found, by_name, files) -> None:
    _of_changelog(fileio, location, snapshot, found.needed, by_name)
    delta = snapshot["deltaManifestList"]
    if f"manifest/{delta}" not in files and _has_producer(fileio, location, files):
        return  # the data files are not its changelog
    if snapshot["changelogManifestList"] is not None:
        return
    for name in (snapshot["baseManifestList"], delta):
        found.needed.add(f"manifest/{name}")
        for manifest in _avro(fileio, f"{location}/manifest/{name}"):
            found.beside.add(f"manifest/{manifest['_FILE_NAME']}")
    for manifest in _avro(fileio, f"{location}/manifest/{delta}"):
        found.needed.add(f"manifest/{manifest['_FILE_NAME']}")
    for entry in _entries(fileio, location, delta):
        is_told = snapshot["commitKind"] == "APPEND" and entry["_KIND"] == 0
        (found.needed if is_told else found.beside).update(_paths(entry, by_name))


def _has_producer(fileio, location, files) -> bool:
    """Whether the table, or what it kept, is of a changelog producer."""
    newest = max(int(p.rsplit("-", 1)[1]) for p in files if p.startswith("schema/schema-"))
    schema = json.loads(fileio.read_bytes(f"{location}/schema/schema-{newest}"))
    if schema["options"].get("changelog-producer", "none") != "none":
        return True
    kept = (p for p in files if p.startswith(("changelog/changelog-", "snapshot/snapshot-")))
    return any(
        json.loads(fileio.read_bytes(f"{location}/{p}"))["changelogManifestList"] for p in kept
    )


def _entries(fileio, location, list_name):
    for manifest in _avro(fileio, f"{location}/manifest/{list_name}"):
        yield from _avro(fileio, f"{location}/manifest/{manifest['_FILE_NAME']}")


def _paths(entry, by_name):
    for name in (entry["_FILE"]["_FILE_NAME"], *entry["_FILE"]["_EXTRA_FILES"]):
        yield from by_name.get(name, [f"lost/{name}"])

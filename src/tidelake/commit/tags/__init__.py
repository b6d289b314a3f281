"""Tags that the clock makes and removes, and the removal of a tag's files.

1. :mod:`~tidelake.commit.tags.periods`: the period of a time, and the name of its tag.
2. :mod:`~tidelake.commit.tags.creation`: tags for periods that are over.
3. :mod:`~tidelake.commit.tags.expiry`: tags whose time is over.
4. :mod:`~tidelake.commit.tags.branch_starts`: tags that branches need, which stay.
5. :mod:`~tidelake.commit.tags.success_file`: files that say that a tag was made.
6. :mod:`~tidelake.commit.tags.automatic`: what a commit does of this.

Tags are files of a log of their own (:mod:`tidelake.metadata.log.tag`): no snapshot is made here.
"""

from tidelake.commit.tags.automatic import keep_tags
from tidelake.commit.tags.branch_starts import BranchStarts
from tidelake.commit.tags.creation import check_automatic_tags, create_due_tags
from tidelake.commit.tags.deletion import delete_tag_and_files
from tidelake.commit.tags.expiry import expire_tags
from tidelake.commit.tags.success_file import tell_created, tell_deleted

__all__ = [
    "BranchStarts",
    "check_automatic_tags",
    "create_due_tags",
    "delete_tag_and_files",
    "expire_tags",
    "keep_tags",
    "tell_created",
    "tell_deleted",
]

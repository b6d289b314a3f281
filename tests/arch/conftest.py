"""What the tests of this directory share: trees of the source, let go behind the last of them."""

from arch.sources import trees


def pytest_runtest_teardown(item, nextitem):
    if nextitem is None or nextitem.path.parent != item.path.parent:
        trees.cache_clear()

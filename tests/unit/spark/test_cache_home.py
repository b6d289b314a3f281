"""The cache folder is the user's."""

from pathlib import Path

from tidelake.spark.cache_home import cache_home


def test_the_cache_follows_xdg(tmp_path):
    assert cache_home({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "tidelake"
    assert cache_home({}) == Path.home() / ".cache" / "tidelake"

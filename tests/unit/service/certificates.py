"""Certificates for tests of TLS, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = "IP:127.0.0.1,DNS:localhost"


class Authority:
    """Signs certificates; its own is at ``ca``."""

    def __init__(self, place: Path) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("openssl makes the certificates")
        place.mkdir(parents=True, exist_ok=True)
        self._place = place
        self.ca = str(place / "ca.pem")
        self._run("req", "-x509", *self._new("ca"), "-out", "ca.pem", "-subj", "/CN=ca")

    def signed(self, name: str, *, names: str = HERE, days: int = 2) -> tuple[str, str]:
        """A certificate and its key; one with days below zero has expired."""
        subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName={names}")
        self._run("req", *self._new(name), *subject, "-out", f"{name}.csr")
        self._run("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-days", str(days), "-copy_extensions", "copy", "-out", f"{name}.pem")  # fmt: skip
        return str(self._place / f"{name}.pem"), str(self._place / f"{name}.key")

    def _new(self, name: str) -> tuple[str, ...]:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*curve, "-keyout", f"{name}.key")

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._place, check=True, capture_output=True)

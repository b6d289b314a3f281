"""Serve the pages of a warehouse and look at them with Chromium: axe-core, keys, looks again.

Usage: python scripts/ui_check.py [--pictures]

Needs `chromium` on the PATH, or its path in CHROMIUM. Playwright and axe-core get an environment of
their own. With --pictures those of the documentation are taken anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ui_lake

from tidelake.ui.report import report
from tidelake.ui.serving import page_server

ROOT = Path(__file__).resolve().parents[1]
BROWSER = ROOT / ".venv-browser"
LIBRARIES = ("playwright==1.65.2", "axe-playwright-python==0.1.8")
PICTURES = ROOT / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
POLL_S = 0.2
PICTURED = "--pictures"


def main() -> int:
    """Run the checks in the browser's own environment."""
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if chromium is None:
        print("Chromium was not found: apt-get install chromium, or set CHROMIUM=...")
        return 2
    python = BROWSER / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", BROWSER], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *LIBRARIES], check=True)
    with tempfile.TemporaryDirectory() as place:
        home = Path(tempfile.gettempdir()) / "shop" if PICTURED in sys.argv else Path(place)
        shutil.rmtree(home / "lake", ignore_errors=True)
        lake = ui_lake.make(home / "lake")
        file, nudge = Path(place) / "report.html", Path(place) / "nudge"
        file.write_text(report(lake, "shop.orders"), encoding="utf-8")
        with page_server(lake, port=0, allow_actions=True) as server:
            words = [
                python,
                ROOT / "scripts" / "ui_browser.py",
                f"http://127.0.0.1:{server.server_port}",
                file,
                chromium,
                PICTURES if PICTURED in sys.argv else "",
                nudge,
                server.token,
            ]
            with subprocess.Popen(list(map(str, words))) as browsing:
                while browsing.poll() is None:
                    try:
                        browsing.wait(POLL_S)
                    except subprocess.TimeoutExpired:
                        if nudge.exists():
                            nudge.unlink()
                            lake.table("shop.stock").write([{"sku": 1, "left": 99}])
            return browsing.returncode


if __name__ == "__main__":
    sys.exit(main())

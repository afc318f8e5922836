"""What a wheel holds beside the packages: manual pages and completion scripts, made when it is
built (``src/iotrial/cli/man_pages.py``), for ``share`` of where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SharedFiles(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make them, unless the source stays where it is (an editable installation)."""
        if version == "editable":
            return
        self.made = TemporaryDirectory(prefix="iotrial-share-")
        # A process of its own: this source and not one that is installed, no plugin of whoever
        # builds, and nothing left in the source.
        own = {"PYTHONPATH": str(Path(self.root, "src")), "IOTRIAL_PLUGINS": ""}
        subprocess.run(
            [sys.executable, "-B", "-m", "iotrial.cli.man_pages", self.made.name],
            env={**os.environ, **own},
            check=True,
        )
        build_data["shared_data"][self.made.name] = "share"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        del build_data, artifact_path
        if version != "editable":
            self.made.cleanup()

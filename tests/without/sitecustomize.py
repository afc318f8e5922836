"""Python imports this at its start where this folder is in PYTHONPATH: see ``tests/absent.py``."""

import os
import sys

ABSENT = set(os.environ.get("IOTRIAL_ABSENT", "").split())


class Absent:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        root = name.partition(".")[0]
        if root in ABSENT:
            raise ModuleNotFoundError(f"No module named {root!r}", name=root)


sys.meta_path.insert(0, Absent)

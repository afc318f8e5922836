"""Python imports this at its start where this folder is in PYTHONPATH: there is no altair then."""

import sys


class Absent:
    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name.partition(".")[0] == "altair":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent)

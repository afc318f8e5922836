"""What a node is for, beside being a host: begun at each boot, and asked when it has come so far.

A role is a script, ``guest/roles/NAME.sh``, with two functions: ``start`` begins it, ``lacks`` says
what is lacking yet.  ``guest/roles/lab.sh`` runs them.  Pure.
"""

from __future__ import annotations

import shlex
from importlib.resources import files

SCRIPT = "etc/iotrial-lab"
UNIT = "etc/systemd/system/iotrial-lab.service"
WANTED = "etc/systemd/system/multi-user.target.wants/iotrial-lab.service"
"""Where a link to the unit makes systemd start it."""
WHOLE = f"if [ -e /{SCRIPT} ]; then sh /{SCRIPT} whole; fi"
"""What a node is asked: exit 0 when its role is fulfilled, or it has none; else stderr says what
is lacking."""


def role(name: str, **values: str) -> dict[str, str]:
    """The files of this role, text by path; ``values`` are the script's variables."""
    folder = files("iotrial_vmlab") / "guest/roles"
    return {
        SCRIPT: (folder / "lab.sh").read_text("utf-8"),
        f"{SCRIPT}.role": (folder / f"{name}.sh").read_text("utf-8"),
        f"{SCRIPT}.conf": "".join(f"{key}={shlex.quote(text)}\n" for key, text in values.items()),
        UNIT: (folder / "iotrial-lab.service").read_text("utf-8"),
    }

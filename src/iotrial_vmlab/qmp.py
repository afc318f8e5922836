"""What a running QEMU is asked and told, by its own protocol.

Source: QMP specification (docs/interop/qmp-spec.txt of QEMU 7.2): a greeting, capabilities, then a
JSON document a line; events may come between.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iotrial.errors import HostError

WITHIN = 10.0


def ask(folder: Path, command: str, **arguments: Any) -> Any:  # noqa: ANN401 (whatever it answers)
    """One command to the QEMU whose folder this is, and its answer.

    Raises HostError where nobody answers within 10 s, or the answer is an error.
    """
    try:
        with _connected(folder) as link, link.makefile("rb") as answers:
            json.loads(answers.readline())
            _say(link, "qmp_capabilities", {})
            _answer(answers, command)
            _say(link, command, arguments)
            return _answer(answers, command)
    except (OSError, ValueError) as error:
        raise HostError(
            f"{folder.name}: QEMU does not answer to {command}: {error}",
            advice="Is it running? iotrial vmlab list",
        ) from error


def _connected(folder: Path) -> socket.socket:
    """Through the folder's descriptor: the path of a socket holds 107 bytes (unix(7))."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(WITHIN)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        link.connect(f"/proc/self/fd/{descriptor}/qmp.sock")
    except BaseException:
        link.close()
        raise
    finally:
        os.close(descriptor)
    return link


def _say(link: socket.socket, command: str, arguments: dict[str, Any]) -> None:
    link.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")


def _answer(answers: Iterator[bytes], command: str) -> Any:  # noqa: ANN401
    for line in answers:
        said = json.loads(line)
        if "return" in said:
            return said["return"]
        if "error" in said:
            raise ValueError(said["error"].get("desc", f"{command} is refused"))
    raise ValueError("it hung up")

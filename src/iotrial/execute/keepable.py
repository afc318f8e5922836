"""Whether a configuration file can be given back as it was: content, owner and mode can, what
else a name is tied to cannot."""

from __future__ import annotations

from pathlib import PurePosixPath

from iotrial.model.host import Host


def obstacle(host: Host, path: str) -> str:
    """Why the file cannot be a knob's, or ''.

    It is replaced by a new file of the same name.  A symbolic link would become a file, and one
    of several hard links would part from the others; a folder that is made for it would stay.
    """
    folder = str(PurePosixPath(path).parent)
    if host.run(["stat", "-L", "-c", "%F", folder]).text.strip() != "directory":
        return f"there is no folder {folder}"
    seen = host.run(["stat", "-c", "%F|%h", path])
    kind, _, links = seen.text.strip().partition("|")
    if seen.exit != 0:
        return ""  # it is made, and removed again
    if kind == "symbolic link":
        real = host.run(["readlink", "-e", path]).text.strip() or "a file that is not there"
        return f"{path} is a symbolic link: write file = the path it leads to, {real}"
    if not kind.startswith("regular"):
        return f"{path} is a {kind}, not a file"
    if links.isdigit() and int(links) > 1:
        return f"{path} has {links} hard links, and only this one would be changed"
    return ""

"""What was at a file's place before it was kept: put aside by a rename, and back by another.

So it comes back as it was: a link (dangling or not) is a link, and owner, mode, times, extended
attributes, ACLs and hard links are those that it had.  It lies beside, by a name that no program
takes for one of its files.  What an administrator has made of our file since is no part of what
was before: it is saved beside as well, and said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from iotrial.errors import RefusedError
from iotrial.hosts.steps import reads
from iotrial.keep.native import NativeFile
from iotrial.model.host import Host
from iotrial.model.step import ABSENT, Act, Look, Probe
from iotrial.model.tunable import Owed, Setting

ASIDE, SAVED = ".iotrial-former", ".iotrial-saved"
_THERE = "as it was"
_LOOK = """\
if [ -e "$1" ] || [ -L "$1" ]; then echo moved aside; exit; fi
if [ -f "$2" ] && [ ! -L "$2" ]; then
    sum=$(sha256sum <"$2") || exit
    [ "${sum%% *}" != "$3" ] || { echo lost; exit; }
fi
echo as it was
"""
"""Arguments: where it lies beside, our file, the sum of what we wrote.  Ours with nothing beside:
somebody has removed what was before."""
_NEEDS = """\
[ -e "$1" ] || [ -L "$1" ] || {
    echo "what was there before is gone from $1: put it there again, or remove $2" >&2
    exit 1
}
"""
"""Arguments: where it lies beside, our file, which stays until there is something in its place."""
_SAVE = """\
[ -e "$1" ] || [ -L "$1" ] || exit 0
if [ -f "$1" ] && [ ! -L "$1" ]; then
    sum=$(sha256sum <"$1") || exit
    [ "${sum%% *}" != "$2" ] || exit 0
fi
mv -T --backup=numbered -- "$1" "$3"
"""
"""Arguments: our file, the sum of what we wrote, where to save another content."""


def former_file(host: Host, file: NativeFile, empty: Sequence[Act]) -> Owed:
    """What gives back what is at the place of ``file`` now.  ``empty`` removes folders that are
    made for it.  Raises RefusedError for what cannot be moved aside."""
    path, after = file.path, tuple(Act("run", argv=command) for command in file.reload)
    digest = hashlib.sha256(file.text.encode("utf-8", "surrogateescape")).hexdigest()
    saving = ("sh", "-c", _SAVE, "iotrial-saved", path, digest, f"{path}{SAVED}")
    gone = (Act("run", argv=saving), Act("remove", path=path))
    beside = f"{path}{ASIDE}"
    if _kind(host, beside):
        raise RefusedError(
            f"{host.name}: {beside} is there: what an earlier keep found, and did not give back",
            advice=f"Look at it: move it to {path}, or away.",
        )
    kind = _kind(host, path)
    if not kind:
        unload = tuple(Act("run", argv=_ignoring(command)) for command in file.unload)
        acts = (*unload, *gone, *empty, *after)
        probe = Probe(path, pick="whole", absent=ABSENT)
        return Owed(Setting("", f"file:{path}", ABSENT), probe, acts, durable=True)
    if not kind.startswith(("regular", "symbolic link")):
        raise RefusedError(
            f"{host.name}: {path} is a {kind}", advice="Move it away, or take another --name."
        )
    back = ("mv", "-fT", "--", beside, path)
    folder = path.rpartition("/")[0]
    needs = Act("run", argv=("sh", "-c", _NEEDS, "iotrial-needed", beside, path))
    acts = (needs, *gone, Act("run", argv=back), Act("run", argv=("sync", "--", folder)), *after)
    # What was the same as ours cannot be told from ours, and need not be.
    same = kind.startswith("regular") and _sum(host, path) == digest
    looking = ("sh", "-c", _LOOK, "iotrial-former", beside, path, "" if same else digest)
    probe = Probe(argv=looking)
    return Owed(Setting("", f"file:{path}", _THERE), probe, acts, durable=True)


def aside(host: Host, path: str) -> tuple[Act, ...]:
    """What moves aside what is there now."""
    if not _kind(host, path):
        return ()
    return (Act("run", argv=("mv", "-fT", "--", path, f"{path}{ASIDE}")),)


def edited(host: Host, files: Sequence[tuple[str, str]]) -> list[str]:
    """In words, each file that is another one than we wrote, and where it will be saved."""
    probes = [Probe(path, pick="whole", absent=ABSENT) for path, _ in files]
    answers = host.batch([Look(probe) for probe in probes])
    return [
        f"{path} was changed since it was kept: that is saved as {path}{SAVED}"
        for (path, text), probe, answer in zip(files, probes, answers, strict=True)
        if reads(probe, answer) not in (text, ABSENT)
    ]


def _kind(host: Host, path: str) -> str:
    """What stat(1) calls it, links not followed; '' where there is nothing."""
    done = host.run(["stat", "-c", "%F", "--", path])
    return done.text.strip() if done.exit == 0 else ""


def _sum(host: Host, path: str) -> str:
    done = host.run(["sha256sum", "--", path])
    return done.text.removeprefix("\\").partition(" ")[0] if done.exit == 0 else ""


def _ignoring(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose failure keeps nothing from being undone."""
    return ("sh", "-c", '"$@" || :', "iotrial-unload", *command)

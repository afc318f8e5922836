"""The commands that the fake host understands: those that iotrial uses, and a few for tests.

``COMMANDS`` maps a program to its function and to what it changes.  A program that is not there
is 127, as in a shell.  The scripts of ``execute/keep/former.py`` are held against what sh makes of
them by ``tests/unit/test_keep_former.py``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from iotrial.hosts.fake import fio as fake_fio
from iotrial.hosts.fake import proc as fake_proc
from iotrial.hosts.fake.disk import loop
from iotrial.hosts.fake.loads import DD_VERSION, dd_amount, dd_leave, dd_refused, dd_report
from iotrial.hosts.fake.machine import (
    CHARACTERS,
    CONTROLLER,
    CommandOutput,
    FakeMachine,
    FakeProgram,
    mount_below,
)
from iotrial.units import parse_bytes, parse_seconds

_FILL_RATE = 500e6  # bytes per second, of dd
_BLOCK = 4096
_SCRIPT_NAME = 3
"""Where ``sh -c SCRIPT NAME`` has its name."""
_LOOP = re.compile(r"/dev/loop([0-9]+)")
_TYPES = {"ext4": "ext2/ext3", "devtmpfs": "tmpfs"}  # as stat(1) calls them


def _fail(words: str, status: int = 1) -> CommandOutput:
    return CommandOutput(status, "", f"{words}\n")


def _plain(arguments: Sequence[str]) -> list[str]:
    """The arguments that are no options."""
    return [word for word in arguments if not word.startswith("-")]


def _id(_machine: FakeMachine, _arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    return CommandOutput(0, "0\n")


def _uname(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    said = {
        "-r": machine.booted[0] if machine.booted else fake_proc.release(machine.kernel.release),
        "-n": "fake",
        "-m": "x86_64",
        "-s": "Linux",
    }
    return CommandOutput(0, said.get(arguments[0] if arguments else "-s", "Linux") + "\n")


def _nproc(_machine: FakeMachine, _arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    return CommandOutput(0, f"{fake_proc.CPUS}\n")


def _readlink(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    path = _plain(arguments)[-1]
    if namespace := re.fullmatch(r"/proc/(?:self|[0-9]+)/ns/([a-z]+)", path):
        return CommandOutput(0, f"{namespace[1]}:[4026531840]\n")
    return CommandOutput(0, f"{machine.real(path)}\n") if machine.kind(path) else CommandOutput(1)


def _stat(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    at = list(arguments).index("-c") + 1
    lines, missing = "", ""
    for path in _plain(arguments[at + 1 :]):
        if not machine.kind(path):
            missing += f"stat: cannot statx '{path}': No such file or directory\n"
            continue
        told = _filesystem(machine, path) if "-f" in arguments else _status(machine, path)
        lines += _formatted(arguments[at], told) + "\n"
    return CommandOutput(int(bool(missing)), lines, missing)


def _formatted(form: str, told: dict[str, str]) -> str:
    return re.sub(r"%([a-zA-Z])", lambda m: told.get(m[1], "?"), form)


def _filesystem(machine: FakeMachine, path: str) -> dict[str, str]:
    _, point, kind, _ = mount_below(machine, path)
    roomy = point == "/" or kind in ("ext4", "nfs4")
    free = str(machine.room() // _BLOCK) if roomy else "0"
    size = next((disk.size for disk in machine.disks if disk.mount == "/"), 0)
    return {
        "b": str(size // _BLOCK),
        "a": free,
        "f": free,
        "S": str(_BLOCK),
        "s": str(_BLOCK),
        "T": _TYPES.get(kind, kind),
    }


def _status(machine: FakeMachine, path: str) -> dict[str, str]:
    real = machine.real(path)
    devno = machine.nodes.get(real) or CHARACTERS.get(real) or (0, 0)
    major, minor = map(int, mount_below(machine, path)[0].split(":"))
    file = machine.files.get(real)
    kernels = machine.mode(real) or (0o600 if any(devno) else 0o755)
    mode = file.mode if file else machine.folders.get(real, kernels)
    inode = file.inode if file else sum(map(ord, real))
    return {
        "F": machine.kind(path),
        "n": path,
        "t": f"{devno[0]:x}",
        "T": f"{devno[1]:x}",
        "d": str(os.makedev(major, minor)),
        "i": str(inode),
        "s": str(file.length if file else 0),
        "a": f"{mode:o}",
        "u": "0",
        "g": "0",
        "G": "root",
        "h": "1",
    }


def _blkid(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    node = machine.real(arguments[-1])
    for disk in machine.disks:
        if node == f"/dev/{disk.content}" and disk.signature:
            usage = "other" if disk.signature == "swap" else "filesystem"
            uuid = f"0fa4e000-0000-4000-8000-{disk.devno[1]:012d}"
            return CommandOutput(
                0, f"DEVNAME={node}\nUUID={uuid}\nTYPE={disk.signature}\nUSAGE={usage}\n"
            )
        if node == f"/dev/{disk.name}" and disk.partitioned:
            return CommandOutput(0, f"DEVNAME={node}\nPTTYPE=gpt\n")
    return CommandOutput(2)


def _losetup(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    if "--version" in arguments:
        return CommandOutput(0, "losetup from util-linux 2.38.1\n")
    words = _plain(arguments)
    found = _LOOP.fullmatch(words[0]) if words else None
    if not found:
        return _fail("losetup: bad usage")
    name = f"loop{found[1]}"
    if "-d" in arguments or "--detach" in arguments:
        return _detach(machine, name)
    if name not in machine.blocks:  # the node is made by opening it, even if the rest fails
        machine.blocks[name] = loop(int(found[1]), machine.kernel)
        machine.relink()
    file = machine.files.get(machine.real(words[1]))
    block = machine.blocks[name]
    if file is None or block.backing:
        why = "Device or resource busy" if block.backing else "No such file or directory"
        return _fail(f"losetup: {words[1]}: failed to set up loop device: {why}")
    block.backing = (machine.real(words[1]), file.inode)
    block.size = file.length // 512 * 512
    return CommandOutput()


def _detach(machine: FakeMachine, name: str) -> CommandOutput:
    block = machine.blocks.get(name)
    if block is None or not block.backing:
        return _fail(f"losetup: /dev/{name}: detach failed: No such device or address")
    block.backing = None
    block.size = 0
    return CommandOutput()


def _perl(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    """Two one-liners: LOOP_CTL_REMOVE, and opening a block device for oneself alone (O_EXCL)."""
    script = arguments[1] if len(arguments) > 1 else ""
    if "0x4C81" in script:
        number = re.search(r"0x4C81,\s*([0-9]+)", script)
        return _remove_loop(machine, int(number[1] if number else arguments[2]))
    if "0x4C05" in script:
        return _backings(machine, arguments[2:])
    if _claims(arguments):
        return _claim(machine, arguments[2])
    return _fail("perl: the fake host does not know this script", 255)


def _backings(machine: FakeMachine, names: Sequence[str]) -> CommandOutput:
    """LOOP_GET_STATUS64 of several: file system and inode of the file; no device is behind one."""
    lines = ""
    for block in (machine.blocks[name] for name in names if name in machine.blocks):
        if block.backing:
            path, inode = block.backing
            lines += f"{block.name} {_status(machine, path)['d']}:{inode} 0\n"
    return CommandOutput(0, lines)


def _remove_loop(machine: FakeMachine, number: int) -> CommandOutput:
    block = machine.blocks.get(f"loop{number}")
    if block is None:
        return CommandOutput(errno.ENODEV)
    if block.backing:
        return CommandOutput(errno.EBUSY)
    del machine.blocks[block.name]
    machine.relink()
    return CommandOutput()


def _claim(machine: FakeMachine, node: str) -> CommandOutput:
    devno = machine.nodes.get(machine.real(node))
    if devno is None:
        return CommandOutput(errno.ENOENT)
    for block in machine.blocks.values():
        own = {block.devno} | ({block.disk.content_devno} if block.disk else set())
        if devno in own and block.busy:
            return CommandOutput(errno.EBUSY)
    return CommandOutput()


def _dd(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    """Not as a load: at once, at a rate that is always the same."""
    if "--version" in arguments:
        return CommandOutput(0, DD_VERSION)
    given = dict(word.split("=", 1) for word in arguments)
    if problem := dd_refused(machine, given):
        return _fail(problem)
    size = dd_amount(machine, given)
    dd_leave(machine, given)
    seconds = size / _FILL_RATE
    machine.pass_time(seconds)
    return CommandOutput(
        0, "", dd_report(size, parse_bytes(given.get("bs", "512")), max(seconds, 1e-4))
    )


def _truncate(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    size = arguments[list(arguments).index("-s") + 1]
    machine.put(arguments[-1], b"", mode=0o644, size=parse_bytes(size)).durable = False
    return CommandOutput()


def _mkdir(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    for path in _plain(arguments):
        real = machine.real(path)
        if machine.kind(real) and "-p" not in arguments:
            return _fail(f"mkdir: cannot create directory '{path}': File exists")
        if machine.kind(str(PurePosixPath(real).parent)) != "directory" and "-p" not in arguments:
            return _fail(f"mkdir: cannot create directory '{path}': No such file or directory")
        machine.make_folder(real, 0o755)
    return CommandOutput()


def _rm(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    deep = any(word in arguments for word in ("-r", "-rf", "-fr"))
    calm = any(word in arguments for word in ("-f", "-rf", "-fr"))
    for path in _plain(arguments):
        real = machine.real(path)
        below = f"{real}/"
        if real not in machine.files and not (deep and machine.kind(real)) and not calm:
            return _fail(f"rm: cannot remove '{path}': No such file or directory")
        for name in [n for n in machine.files if n == real or (deep and n.startswith(below))]:
            del machine.files[name]
        for name in [n for n in machine.folders if deep and f"{n}/".startswith(below)]:
            del machine.folders[name]
    return CommandOutput()


def _rmdir(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    for path in _plain(arguments):
        real = machine.real(path)
        if real not in machine.folders:
            return _fail(f"rmdir: failed to remove '{path}': No such file or directory")
        if machine.names(real):
            return _fail(f"rmdir: failed to remove '{path}': Directory not empty")
        del machine.folders[real]
    return CommandOutput()


def _sync(machine: FakeMachine, _arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    for file in machine.files.values():
        file.durable = True
    return CommandOutput()


def _kill(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    words = [word for word in arguments if word not in ("--", "-s")]
    signals = {"TERM": 15, "KILL": 9, "INT": 2, "15": 15, "9": 9, "2": 2, "0": 0}
    signal = signals.get(words[0].removeprefix("-").removeprefix("SIG")) if len(words) > 1 else None
    gone = [word for word in words[signal is not None :] if not send(machine, int(word), signal)]
    return CommandOutput(
        1, "", "".join(f"kill: ({word}): No such process\n" for word in gone)
    )._replace(exit=int(bool(gone)))


def send(machine: FakeMachine, pid: int, signal: int | None) -> bool:
    """Signal a process, or the group -pid.  False when there is none; None means SIGTERM."""
    meant = [t.pid for t in machine.tasks.values() if t.pid == pid or t.group == -pid]
    if signal != 0:
        for each in meant:
            machine.end(each, -(signal or 15))
    return bool(meant) or pid == CONTROLLER


def _sleep(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    machine.pass_time(parse_seconds(arguments[0]))
    return CommandOutput()


def _fio(_machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    if "--version" in arguments:
        return CommandOutput(0, f"{fake_fio.VERSION}\n")
    if "--enghelp" in arguments:
        lines = "".join(f"\t{engine}\n" for engine in fake_fio.ENGINES)
        return CommandOutput(0, f"Available IO engines:\n{lines}")
    ways = ("--enghelp=", "--ioengine=")
    asked = [word.partition("=")[2] for word in arguments if word.startswith(ways)]
    if asked and asked[0] in fake_fio.ENGINES:
        return CommandOutput()
    return _fail(f"fio: engine {asked[0]} not loadable" if asked else "No job(s) defined")


def _mv(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    """``mv -fT -- FROM TO``: a rename, whole or not at all."""
    former, latter = (machine.real(path) for path in _plain(arguments))
    file = machine.files.pop(former, None)
    if file is None:
        return _fail(f"mv: cannot stat '{former}': No such file or directory")
    machine.files[latter] = file
    return CommandOutput()


def of_script(words: Sequence[str]) -> Sequence[str]:
    """The arguments in ``-c SCRIPT NAME ARGUMENT…``."""
    return words[3:]


def _look(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    """Whether a file was moved aside, or is gone from there."""
    beside, *ours = of_script(arguments)  # journals of earlier versions say no more than this
    if machine.kind(beside):
        return CommandOutput(0, "moved aside\n")
    lost = ours and _sum(machine, ours[0]) == ours[1]
    return CommandOutput(0, "lost\n" if lost else "as it was\n")


def _needs(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    """Goes on only where something lies beside."""
    beside, path = of_script(arguments)
    if machine.kind(beside):
        return CommandOutput()
    what = f"what was there before is gone from {beside}: put it there again, or remove {path}"
    return CommandOutput(1, "", f"{what}\n")


def _save(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    """Saves a file whose content has not this sum."""
    path, digest, saved = of_script(arguments)
    if _sum(machine, path) not in {"", digest}:
        machine.files[saved] = machine.files.pop(machine.real(path))
    return CommandOutput()


def _sha256sum(machine: FakeMachine, arguments: Sequence[str], _stdin: bytes) -> CommandOutput:
    path = arguments[-1]
    if found := _sum(machine, path):
        return CommandOutput(0, f"{found}  {path}\n")
    return CommandOutput(1, "", f"sha256sum: {path}: No such file or directory\n")


def _sum(machine: FakeMachine, path: str) -> str:
    """'' where there is no file."""
    file = machine.files.get(machine.real(path))
    return "" if file is None else hashlib.sha256(file.data).hexdigest()


COMMANDS: dict[str, FakeProgram] = {
    "blkid": FakeProgram(_blkid, changes=False),
    "chmod": FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=True),
    "chown": FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=True),
    "cat": FakeProgram(lambda _m, _a, stdin: CommandOutput(0, stdin.decode()), changes=False),
    "dd": FakeProgram(_dd, changes=lambda words: "--version" not in words),
    "echo": FakeProgram(
        lambda _m, words, _s: CommandOutput(0, " ".join(words) + "\n"), changes=False
    ),
    "false": FakeProgram(lambda _m, _a, _s: CommandOutput(1), changes=False),
    "fio": FakeProgram(_fio, changes=False),
    "id": FakeProgram(_id, changes=False),
    "iotrial-former": FakeProgram(_look, changes=False),
    "iotrial-needed": FakeProgram(_needs, changes=False),
    "iotrial-saved": FakeProgram(_save, changes=True),
    "iotrial-together": FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=True),
    "kill": FakeProgram(_kill, changes=True),
    "losetup": FakeProgram(_losetup, changes=True),
    "mkdir": FakeProgram(_mkdir, changes=True),
    "mv": FakeProgram(_mv, changes=True),
    "nproc": FakeProgram(_nproc, changes=False),
    "perl": FakeProgram(_perl, changes=True),
    "readlink": FakeProgram(_readlink, changes=False),
    "rm": FakeProgram(_rm, changes=True),
    "rmdir": FakeProgram(_rmdir, changes=True),
    "sha256sum": FakeProgram(_sha256sum, changes=False),
    "sleep": FakeProgram(_sleep, changes=False),
    "stat": FakeProgram(_stat, changes=False),
    "sync": FakeProgram(_sync, changes=True),
    "true": FakeProgram(lambda _m, _a, _s: CommandOutput(), changes=False),
    "truncate": FakeProgram(_truncate, changes=True),
    "uname": FakeProgram(_uname, changes=False),
}


def meant(argv: Sequence[str]) -> tuple[str, ...]:
    """The command that ``env -u NAME … COMMAND …`` runs; any other as it is."""
    words = list(argv)
    if words[0] == "env":
        words.pop(0)
        while words[:1] == ["-u"]:
            del words[:2]
    return tuple(words)


def program_of(machine: FakeMachine, argv: Sequence[str]) -> FakeProgram | None:
    """The program that a command names, or None where it is not installed.

    A script of ours, ``sh -c SCRIPT NAME ARGUMENT…``, is known by its NAME, any other is given to
    the machine's ``sh``.
    """
    name = argv[0].rpartition("/")[2]
    shell = name == "sh"
    if shell and argv[1:2] == ("-c",):
        name = argv[3] if len(argv) > _SCRIPT_NAME else ""
    found = machine.programs.get(name) or COMMANDS.get(name)
    return found or (machine.programs.get("sh") if shell else None)


def ran(machine: FakeMachine, argv: Sequence[str], stdin: bytes) -> CommandOutput:
    """What a command says that a script runs."""
    program = program_of(machine, argv)
    if program is None:
        return CommandOutput(127, "", f"sh: {argv[0]}: not found\n")
    return program.command(machine, argv[1:], stdin)


def changes(program: FakeProgram, argv: Sequence[str]) -> bool:
    """Does it change the machine?  Claiming a device, or asking for its file, does not."""
    verdict = program.changes if isinstance(program.changes, bool) else program.changes(argv[1:])
    return verdict and not _claims(argv)


def _claims(argv: Sequence[str]) -> bool:
    return any("sysopen" in word or "0x4C05" in word for word in argv)

"""A world of things that nobody armed, and studies that may get at them.

:class:`World` is real: files, folders, loop devices free, armed, mounted and partitioned, a swap
file, nodes that :manpage:`mknod(1)` made, links.  :func:`cases` combines what a study can say (a
target, the options of its load, a job file, another tool) with what lies in its way and when it
is put there.  Whatever a case comes to, what is not armed keeps its content, its name and its
size.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from conftest import new_loop, remove_loop

MIB = 2**20
LOOPS = ("spare", "armed", "mounted", "parted")
Plant = Callable[["World"], None]


def do(*argv: str) -> str:
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.strip()


@dataclass
class World:
    """``root`` holds everything; ``folder`` is the one that directory targets name."""

    root: Path
    loops: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.root / "folder"

    def words(self) -> dict[str, str]:
        """What stands in the place of ``<NAME>`` in a study."""
        names = {path.name: str(path) for path in self.root.iterdir()}
        return names | self.loops | {"root": str(self.root), "number": self.loops["spare"][9:]}

    def fill(self, text: str) -> str:
        for name, value in self.words().items():
            text = text.replace(f"<{name}>", value)
        return text

    def seen(self) -> dict[str, str]:
        """Every file, folder, link and device that nobody armed, by what can be known of it.

        Of the folder only what lies there now is held against what lies there later: a load may
        put files of its own into it.
        """
        found = {}
        for path in sorted(self.root.rglob("*")):
            if path.name != "lost+found" and not path.name.startswith("armed"):
                found[str(path.relative_to(self.root))] = known(path)
        for name in ("spare", "parted"):
            found[f"device {name}"] = digest(Path(self.loops[name]))
        return found


def known(path: Path) -> str:
    """Kind, inode and, of a file, its size and content; of a link, where it leads."""
    status = path.lstat()
    words = [stat.filemode(status.st_mode), str(status.st_ino)]
    if stat.S_ISLNK(status.st_mode):
        words.append(str(path.readlink()))
    elif stat.S_ISREG(status.st_mode):
        # What the kernel swaps out is its own; its header stands in the first page.
        head = 4096 if path.name == "swapfile" else None
        words += [str(status.st_size), digest(path, head)]
    return " ".join(words)


def digest(path: Path, size: int | None = None) -> str:
    return blake2b(path.read_bytes()[:size], digest_size=16).hexdigest()


def changed(world: World, before: Mapping[str, str]) -> list[str]:
    """What is not as it was, and what is new beside the folder that loads may fill."""
    after = world.seen()
    lost = [f"{name}: was {was}, is {after.get(name)}" for name, was in before.items()
            if after.get(name) != was]  # fmt: skip
    new = [
        f"{name}: is new"
        for name in after
        if name not in before and not name.startswith(("folder/", "new"))
    ]
    return lost + new


@contextmanager
def a_world(root: Path) -> Iterator[World]:
    """Make it, and take everything of it away afterwards."""
    with ExitStack() as stack:
        world = World(root)
        root.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        for name in ("folder", "other", "mnt", "bound"):
            (root / name).mkdir()
        names = ("precious", "vm.img", "folder/precious", "folder/load.0.0", "folder/sub.img",
                 "folder/job.0.0", "folder/job].0.0", "other/precious", "other/precious_bw.1.log",
                 "other/precious_lat.1.log", "precious;v2", "precious#2", "precious ")  # fmt: skip
        for name in names:
            (root / name).write_bytes(os.urandom(256 * 1024))
        (root / "precious").write_bytes(os.urandom(MIB))
        for name in LOOPS:
            _loop(world, name, stack)
        _in_use(world, stack)
        (root / "link").symlink_to(root / "precious")
        (root / "dangling").symlink_to(root / "nowhere")
        (root / "to-device").symlink_to(world.loops["spare"])
        (root / "to-folder").symlink_to(root / "other")
        os.link(root / "mounted.img", root / "hardlink")
        for name in ("spare", "mounted"):
            number = Path(world.loops[name]).stat().st_rdev
            os.mknod(root / f"node-{name}", 0o600 | stat.S_IFBLK, number)
        os.mknod(
            root / "folder" / "node",
            0o600 | stat.S_IFBLK,
            Path(world.loops["spare"]).stat().st_rdev,
        )
        yield world


def _loop(world: World, name: str, stack: ExitStack) -> None:
    backing = world.root / f"{name}.img"
    size = 8 if name == "mounted" else 2
    backing.write_bytes(os.urandom(size * MIB))
    number = new_loop()
    world.loops[name] = f"/dev/loop{number}"
    do("losetup", world.loops[name], str(backing))
    stack.callback(remove_loop, number)


def _in_use(world: World, stack: ExitStack) -> None:
    """A mounted filesystem, a folder bound elsewhere, a partition table, swap."""
    device, point = world.loops["mounted"], world.root / "mnt"
    do("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", "-O", "^has_journal", device)
    do("mount", "-o", "noatime", device, str(point))
    stack.callback(subprocess.run, ["umount", str(point)], check=False, timeout=30)
    (point / "held").write_bytes(os.urandom(256 * 1024))
    do("sync", "-f", str(point))
    bound = world.root / "bound"
    do("mount", "--bind", str(world.root / "other"), str(bound))
    stack.callback(subprocess.run, ["umount", str(bound)], check=False, timeout=30)
    entry = bytes((0, 0, 0, 0, 0x83, 0, 0, 0)) + (64).to_bytes(4, "little") * 2
    with Path(world.loops["parted"]).open("r+b") as table:
        table.write(entry.rjust(446 + 16, b"\0").ljust(510, b"\0") + b"\x55\xaa")
    swap = world.root / "swapfile"
    swap.write_bytes(b"\0" * MIB)
    swap.chmod(0o600)
    do("mkswap", "-q", str(swap))
    with suppress(subprocess.CalledProcessError):  # some filesystems hold no swap
        do("swapon", str(swap))
        stack.callback(subprocess.run, ["swapoff", str(swap)], check=False, timeout=30)


# What a study says.

UNARMED = {
    "existing file": 'file = "<precious>"\nsize = "1MiB"',
    "existing file, longer": 'file = "<precious>"\nsize = "2MiB"',
    "existing file, shorter": 'file = "<precious>"\nsize = "64KiB"',
    "file in a folder": 'file = "<root>/folder/precious"\nsize = "256KiB"',
    "file through a link": 'file = "<link>"\nsize = "1MiB"',
    "file through a folder's link": 'file = "<to-folder>/precious"\nsize = "256KiB"',
    "file at a dangling link": 'file = "<dangling>"\nsize = "256KiB"',
    "file at a link to a device": 'file = "<to-device>"\nsize = "256KiB"',
    "file that is a node": 'file = "<node-spare>"\nsize = "256KiB"',
    "file armed by another name": 'file = "<precious>"\nsize = "1MiB"\ndestroy = "<vm.img>"',
    "backing of a mount": 'file = "<mounted.img>"\nsize = "8MiB"\ndestroy = "<mounted.img>"',
    "backing by a hard link": 'file = "<hardlink>"\nsize = "8MiB"\ndestroy = "<hardlink>"',
    "backing of a device": 'file = "<spare.img>"\nsize = "2MiB"\ndestroy = "<spare.img>"',
    "swap file": 'file = "<swapfile>"\nsize = "1MiB"\ndestroy = "<swapfile>"',
    "free device": 'device = "<spare>"',
    "free device by a node": 'device = "<node-spare>"',
    "free device by a link": 'device = "<to-device>"',
    "device armed as another": 'device = "<spare>"\ndestroy = "<armed.img>"',
    "mounted device": 'device = "<mounted>"\ndestroy = "<mounted.img>"',
    "mounted device by a node": 'device = "<node-mounted>"\ndestroy = "<mounted.img>"',
    "partitioned device": 'device = "<parted>"\ndestroy = "<parted.img>"',
    "file whose name fio cuts": 'file = "<root>/precious;v2"\nsize = "256KiB"',
    "new file whose name fio cuts": 'file = "<root>/vm.img#new"\nsize = "512KiB"',
    "file whose last blank fio drops": 'file = "<root>/precious "\nsize = "256KiB"',
    "character device": 'device = "/dev/null"',
    "file as a device": 'device = "<precious>"\ndestroy = "<precious>"',
}
ALLOWED = {
    "new file": 'file = "<root>/new.img"\nsize = "256KiB"',
    "folder": 'directory = "<folder>"',
    "armed device": 'device = "<armed>"\ndestroy = "<armed.img>"',
    "loop of its own": 'loop = { size = "2MiB", directory = "<root>/folder" }',
    "filesystem of its own": (
        'filesystem = "ext2"\nloop = { size = "2MiB", directory = "<root>/folder" }'
    ),
}
RW = ("read", "randread", "write", "randwrite", "rw", "randrw", "trim", "trimwrite", "randtrim")
OPTIONS = (
    'size = "2m"', 'size = "64k"', 'size = "100%"', 'size = "200%"', 'size = "-1"',
    'filesize = "2m"', 'filesize = "4k-2m"', 'offset = "512k"', 'offset = "50%"',
    'offset_increment = "1m"', "numjobs = 3", "nrfiles = 4", 'io_size = "4m"', "unlink = 1",
    "unlink_each_loop = 1", "loops = 2", "create_on_open = 1", "create_serialize = 0",
    "create_fsync = 1", "overwrite = 1", "pre_read = 1", "file_append = 1",
    'fallocate = "posix"', 'fallocate = "truncate"', 'fallocate = "keep"', 'verify = "crc32c"',
    'verify = "crc32c"\nverify_state_save = 1', "do_verify = 1", "verify_only = 1",
    "fill_device = 1", "create_only = 1", 'ioengine = "mmap"', 'ioengine = "filecreate"',
    'ioengine = "filedelete"', 'ioengine = "ftruncate"', 'ioengine = "falloc"',
    'ioengine = "e4defrag"\ndonorname = "<precious>"', 'mem = "mmap:<precious>"',
    'lockfile = "exclusive"', "trim_percentage = 50", 'write_iolog = "<root>/vm.img"',
    'write_iolog = "log"', 'write_bw_log = "<root>/other/precious"', "unique_filename = 0",
    'filename = "<spare>"', 'directory = "<other>"', 'filename_format = "../other/precious"',
    'opendir = "<other>"', 'read_iolog = "<precious>"', 'exec_prerun = "dd of=<precious>"',
    'exec_postrun = "dd of=<precious>"', 'zonemode = "strided"\nzonesize = "64k"',
    "invalidate = 1", "rwmixread = 50", "fsync = 1", "direct = 0", "allow_file_create = 1",
    "allow_mounted_write = 1", "new_group = 1", 'name = "precious"', 'file_service_type = "random"',
    'aux-path = "<other>"', 'replay_redirect = "<spare>"', "fsync_on_close = 1", "end_fsync = 1",
    'size = "2*cpus"', 'io_submit_mode = "offload"', 'sync = "dsync"', "norandommap = 1",
)  # fmt: skip
HEADS = (
    "", "rw=randread", "rw=randwrite", "rw=read", "rw=write", "filename=<spare>",
    "filename=<precious>", "filename=/vm.img", "filename=vm.img", "filename=../precious",
    "filename=<root>/folder/../precious", "filename=sub.img:../other/precious",
    "directory=<folder>", "directory=<other>", "directory=<folder>:<other>", "directory=.",
    "directory=<folder>/..", "directory=<to-folder>", "opendir=<other>", "nrfiles=2",
    "filename_format=$jobname", "filename_format=../other/$jobname", "unique_filename=1",
    "filename_format=precious", r"filename=\:<spare>", "filename=<link>", "filename=<to-device>",
    "filename=<node-spare>", "filename=/dev/fd/1", "filename=-", "unlink=1", "size=2m",
    "filename=load.0.0", "filename=/proc/self/cwd/../../precious", "file_append=1",
    "filename=${HOME}/x", "filename=/dev/loop<number>", "overwrite=1", "lockfile=readwrite",
    "write_bw_log=<root>/other/precious", "write_iolog=../../vm.img", "filename=<mounted>",
    "filename=<mounted.img>", "include <precious>", "numjobs=2", "filename=<swapfile>",
    "FILENAME=<precious>", "filename = <precious>", "create_on_open=1", "verify=md5",
    "directory=", "filename=", "aux-path=<other>", "filename=node", "filename=<folder>/node",
    "opendir=<folder>", "write_bw_log", "write_lat_log", "name=<root>/other/precious",
    "name=../../../other/precious",
)  # fmt: skip
SECTIONS = (
    "job", "job", "job", "own", "load", "precious", "../precious", "../other/precious", "../../x",
    "<precious>", "<spare>", "a/b", "/dev/loop<number>", "..", "load.0.0", "job;x", "précieux",
)  # fmt: skip
HEADERS = ("[job.", "[jobs", "[job]x", "[job]]", "[job;x]", "[job]", "[own]")
"""Lines that begin a section, some as nobody should write them."""
COMMANDS = (
    '["dd", "if=/dev/zero", "of={out}", "bs=4k", "count=1", "conv=notrunc"]',
    '["dd", "if=/dev/zero", "of=<OUT>", "bs=4k", "count=1", "conv=notrunc"]',
    '["sh", "-c", "echo x > {out}"]',
    '["sh", "-c", "echo x > <OUT>"]',
    '["sh", "-c", "echo x 1<> $0", "{out}"]',
    '["cp", "/proc/version", "{out}"]',
    '["tee", "{out}", "/dev/full"]',
    '["truncate", "--size=1", "{out}"]',
    '["shred", "-n1", "{out}"]',
    '["rm", "-f", "{out}"]',
    '["env", "OUT={out}", "true"]',
    '["stat", "{target}"]',
    '["true"]',
    '["test", "-e", "{target}"]',
    '["dd", "if=/dev/zero", "of={target}", "bs=4k", "count=1", "conv=notrunc"]',
)
SHELLS = (
    "cd /dev && head -c 4096 /dev/urandom 1<>loop<number>",
    "env -C /dev dd if=/dev/urandom bs=4k count=1 conv=notrunc of=loop<number>",
    "head -c 4096 /dev/urandom 1<>/de''v/loop<number>",
    "head -c 4096 /dev/urandom 1<>/de\\v/loop<number>",
    "D=dev; head -c 4096 /dev/urandom 1<>/$D/loop<number>",
    "head -c 4096 /dev/urandom 1<>$(printf /%s/loop<number> dev)",
    "mknod n b 7 <number> && head -c 4096 /dev/urandom 1<>n",
    "dd if=/dev/urandom bs=4k count=1 conv=notrunc of={target}/node",
    "dd if=/dev/urandom bs=4k count=1 conv=notrunc of={target}/../folder/node",
    "dd if=/dev/urandom bs=4k count=1 conv=notrunc of={target}/../to-device",
    "ln -s /dev l; dd if=/dev/urandom bs=4k count=1 conv=notrunc of=l/loop<number>",
    "echo x >{target}/own && rm {target}/own",
    "cat /proc/version",
)
"""Ways to say a device that no reader of ``argv`` sees, and two that harm nothing."""
OUTS = (
    "<spare>", "<node-spare>", "<to-device>", "/dev/../dev/loop<number>", "//dev/loop<number>",
    "<mounted>", "<node-mounted>", "<parted>", "/proc/self/root<spare>", "/dev/./loop<number>",
    "../../../../../../../dev/loop<number>", "<folder>/../to-device",
)  # fmt: skip


# What lies in the way, and since when.


def _folder_of_fio(world: World) -> Path:
    return world.folder / "iotrial-fio"


def fio_folder_of_somebody(world: World) -> None:
    _folder_of_fio(world).mkdir()
    (_folder_of_fio(world) / "load.0.0").write_bytes(os.urandom(64 * 1024))


def fio_folder_is_a_link(world: World) -> None:
    _folder_of_fio(world).symlink_to(world.root / "other")


def fio_folder_is_a_file(world: World) -> None:
    _folder_of_fio(world).write_bytes(b"mine")


def the_new_file_is_a_link(world: World) -> None:
    _replaced(world.root / "new.img", world.root / "precious")


def the_new_file_is_a_link_to_a_device(world: World) -> None:
    _replaced(world.root / "new.img", Path(world.loops["spare"]))


def the_new_file_is_a_hard_link(world: World) -> None:
    (world.root / "new.img").unlink(missing_ok=True)
    os.link(world.root / "vm.img", world.root / "new.img")


def fio_folder_becomes_a_link(world: World) -> None:
    folder = _folder_of_fio(world)
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    _replaced(folder, world.root / "other")


def fio_file_becomes_a_link(world: World) -> None:
    data = _folder_of_fio(world) / "data"
    if data.is_dir() and not data.is_symlink():
        _replaced(data / "load.0.0", world.root / "precious")


def dd_file_becomes_a_link(world: World) -> None:
    _replaced(world.folder / "iotrial.dd", world.root / "precious")


def _replaced(path: Path, goal: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(goal)


def nothing(world: World) -> None:
    """As it is."""
    del world


BEFORE: tuple[Plant, ...] = (fio_folder_of_somebody, fio_folder_is_a_link, fio_folder_is_a_file)
DURING: tuple[Plant, ...] = (
    the_new_file_is_a_link,
    the_new_file_is_a_link_to_a_device,
    the_new_file_is_a_hard_link,
    fio_folder_becomes_a_link,
    fio_file_becomes_a_link,
)
MOMENTS = ("planned", "began")


@dataclass(frozen=True)
class Case:
    """``before`` is there when iotrial begins; ``during`` comes at the ``moment`` that its watcher
    is told of.  ``job`` is the text of a job file.  ``family`` says which way it tries."""

    target: str
    workload: str
    job: str = ""
    before: Plant = nothing
    during: Plant = nothing
    moment: str = ""
    family: str = field(default="", compare=False)

    def study(self, world: World) -> str:
        return world.fill(f"[targets.t]\n{self.target}\n{self.workload}\n{_REST}")


_REST = '[design]\nblocks = 1\nsettle = "0s"\n'
_FACTOR = '[factors.f]\noption = "{}"\nworkload = "load"\nlevels = {}\n'


def _fio(rw: str, options: str) -> str:
    said = {"rw": f'"{rw}"', "bs": '"4k"', "number_ios": "4", "ioengine": '"psync"'}
    for line in options.splitlines():
        name, _, value = line.partition(" = ")
        said[name] = value
    words = ", ".join(f"{name} = {value}" for name, value in said.items())
    head = f'[workloads.load]\ntool = "fio"\noptions = {{ {words} }}\n'
    return head + _FACTOR.format("thinktime", "[0, 1]")


def _jobfile() -> str:
    head = '[workloads.load]\ntool = "fio"\njobfile = "job.fio"\n'
    return head + _FACTOR.format("thinktime", "[0, 1]")


def _command(argv: str, out: str, options: str) -> str:
    """A command that says how well it did, whatever else it does."""
    words = ["sh", "-c", '"$@" >&2 && echo 1{level}', "x", *json.loads(argv.replace("<OUT>", out))]
    given = f'out = "{out}", ' if "{out}" in argv else ""
    metric = '[workloads.load.metrics.x]\nbetter = "higher"\npattern = "(\\\\d+)"\ntake = "first"\n'
    head = f'[workloads.load]\ntool = "command"\nargv = {json.dumps(words)}\n'
    said = f"options = {{ {given}level = 0{options} }}\n"
    return head + said + metric + _FACTOR.format("level", "[0, 1]")


def _dd(rw: str, options: str) -> str:
    head = f'[workloads.load]\ntool = "dd"\noptions = {{ rw = "{rw}", direct = false{options} }}\n'
    return head + _FACTOR.format("bs", '["4k", "8k"]')


def cases(number: int, seed: int = 1) -> list[Case]:
    """So many different cases, always the same for one seed."""
    draw = random.Random(seed)
    found: dict[Case, None] = {}
    ways = (_of_options, _of_options, _of_job_files, _of_job_files, _of_commands, _of_shells,
            _of_dd, _of_links)  # fmt: skip
    while len(found) < number:
        way = draw.choice(ways)
        found.setdefault(replace(way(draw), family=way.__name__.removeprefix("_of_")))
    return list(found)


def _target(draw: random.Random, allowed: float) -> str:
    return draw.choice([*(ALLOWED if draw.random() < allowed else UNARMED).values()])


def _of_options(draw: random.Random) -> Case:
    options = "\n".join(draw.sample(OPTIONS, draw.choice((1, 1, 2, 3))))
    reads = draw.random() < 0.6
    return Case(_target(draw, 0.4), _fio(draw.choice(RW[:2] if reads else RW), options))


def _of_job_files(draw: random.Random) -> Case:
    given = draw.sample(HEADS, draw.choice((0, 0, 1, 2)))
    lines = ["[global]", "bs=4k", "number_ios=4", "size=64k", *given]
    for _ in range(draw.choice((1, 1, 2))):
        header = draw.choice((*HEADERS, *(f"[{each}]" for each in SECTIONS)))
        lines += [header, *draw.sample(HEADS, draw.choice((0, 0, 1, 2)))]
    return Case(_target(draw, 0.6), _jobfile(), "\n".join([*lines, ""]))


def _of_commands(draw: random.Random) -> Case:
    only = draw.choice(("", ", reads_only = true"))
    return Case(_target(draw, 0.6), _command(draw.choice(COMMANDS), draw.choice(OUTS), only))


def _of_shells(draw: random.Random) -> Case:
    only = draw.choice(("", "", ", reads_only = true"))
    names = ("folder", "folder", "armed device", "loop of its own", "filesystem of its own")
    target = ALLOWED[draw.choice(names)]
    argv = json.dumps(["sh", "-c", draw.choice(SHELLS)])
    return Case(target, _command(argv, "", only))


def _of_dd(draw: random.Random) -> Case:
    options = draw.choice(("", ', size = "64k"', ', size = "2m"', ', seek = "512k"'))
    return Case(_target(draw, 0.3), _dd(draw.choice(("read", "write", "both")), options))


def _of_links(draw: random.Random) -> Case:
    target = draw.choice((ALLOWED["new file"], ALLOWED["folder"]))
    load = _fio(draw.choice(("randread", "randwrite", "write")), 'size = "64k"')
    if draw.random() < 0.2:
        moment = draw.choice(MOMENTS)
        load = _dd(draw.choice(("write", "both")), ', size = "64k"')
        return Case(ALLOWED["folder"], load, during=dd_file_becomes_a_link, moment=moment)
    if draw.random() < 0.3:
        return Case(target, load, before=draw.choice(BEFORE))
    moment = draw.choice(MOMENTS)
    return Case(target, load, during=draw.choice(DURING), moment=moment)

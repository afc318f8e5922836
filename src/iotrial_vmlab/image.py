"""An image: the disk, the kernel and the first stage that every node of a lab begins with.

It is built by mmdebstrap in namespaces of its own, which end with us, so that no mount and no
process of a build can stay; in a folder beside, whose rename is the commit.  It is never written to
afterwards.

The kernel is unpacked once: an emulated processor takes 5 s for what is packed by xz, at every boot
of every node, and less than one where QEMU starts it by its PVH entry.

Sources: mmdebstrap(1), mke2fs(8) ``-d``, unshare(1) ``--kill-child``, setpriv(1) ``--pdeathsig``;
modules.dep(5); the kernel's Documentation/driver-api/early-userspace/buffer-format.rst (cpio newc)
and Documentation/arch/x86/boot.rst (``setup_sects``, ``payload_offset`` and ``payload_length``,
protocol 2.08); elf(5); Xen's public/elfnote.h (``XEN_ELFNOTE_PHYS32_ENTRY``), by which QEMU finds
the entry (4.0 and later).
"""

from __future__ import annotations

import gzip
import json
import lzma
import re
import shutil
import stat
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from iotrial.errors import HostError, RefusedError
from iotrial.model.host import Host
from iotrial_vmlab.lab import LabFolders, load
from iotrial_vmlab.recipe import (
    FIRST_MODULES,
    MASKED,
    ROOT_FILES,
    WANTED,
    ImageRecipe,
    PackageSources,
    backports_of,
    recipe,
    sources,
)

# -- a first root filesystem -----------------------------------------------------------------------

_END = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class ImageEntry:
    """A file, or a symbolic link (then ``data`` is where it leads).  ``mode`` are its
    permissions."""

    data: bytes
    mode: int = 0o644
    link: bool = False


def archive(entries: Mapping[str, ImageEntry]) -> bytes:
    """A cpio archive of these files by their paths, without a leading ``/``; their folders are
    made, 0755, and root's.  Several archives, each compressed or not, may follow each other."""
    parts = [_member(folder, b"", stat.S_IFDIR | 0o755) for folder in _folders(entries)]
    for path, entry in sorted(entries.items()):
        kind = stat.S_IFLNK | 0o777 if entry.link else stat.S_IFREG | entry.mode
        parts.append(_member(path, entry.data, kind))
    return b"".join([*parts, _member(_END, b"", 0)])


def _folders(paths: Iterable[str]) -> list[str]:
    """All folders above, each before what is in it."""
    found = {
        "/".join(parts[:n]) for parts in (p.split("/") for p in paths) for n in range(len(parts))
    }
    return sorted(found - {""})


def _member(name: str, data: bytes, mode: int) -> bytes:
    """One member: 13 numbers of 8 hexadecimal digits, the name, the data, each padded to 4."""
    path = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    numbers = (0, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + path
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data.ljust(_whole(len(data)), b"\0")


# -- its kernel ------------------------------------------------------------------------------------

_SINCE = 0x0208
_SECTOR = 512
_PT_NOTE = 4
_PHYS32_ENTRY = (b"Xen\x00", 18)


def unpacked(packed: bytes) -> bytes:
    """The ELF file within a bzImage; the bzImage itself where it is not packed by xz, or holds
    nothing that QEMU can start."""
    try:
        xz = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        inner = xz.decompress(_payload(packed))  # behind it stands its size
        return inner if xz.eof and _PHYS32_ENTRY in _notes(inner) else packed
    except (struct.error, lzma.LZMAError):
        return packed


def _payload(packed: bytes) -> bytes:
    """Raises struct.error for what ends within its header."""
    magic, version = struct.unpack_from("<4sH", packed, 0x202)
    if magic != b"HdrS" or version < _SINCE:
        return b""
    start, size = struct.unpack_from("<II", packed, 0x248)
    start += (packed[0x1F1] + 1) * _SECTOR
    return packed[start : start + size]


def _notes(elf: bytes) -> Iterator[tuple[bytes, int]]:
    """Name and type of each note.  Raises struct.error for what is no ELF file of 64 bits."""
    (magic,) = struct.unpack_from("<5s", elf)
    if magic != b"\x7fELF\x02":
        return
    (table,) = struct.unpack_from("<Q", elf, 0x20)
    entry, count = struct.unpack_from("<HH", elf, 0x36)
    for number in range(count):
        kind, _, start, _, _, size = struct.unpack_from("<IIQQQQ", elf, table + number * entry)
        place, end = start, start + size if kind == _PT_NOTE else start
        while place < end:
            name, said, what = struct.unpack_from("<III", elf, place)
            yield elf[place + 12 : place + 12 + name], what
            place += 12 + _whole(name) + _whole(said)


def _whole(size: int) -> int:
    """With what fills up to four bytes."""
    return -(-size // 4) * 4


# -- its modules -----------------------------------------------------------------------------------

_ENDINGS = re.compile(r"\.ko(\.(xz|gz|zst))?$")


def dependencies(text: str) -> dict[str, tuple[str, ...]]:
    """``modules.dep``: file → files it needs.

    >>> dependencies("a/x.ko: b/y.ko c/z.ko")
    {'a/x.ko': ('b/y.ko', 'c/z.ko')}
    """
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {file: tuple(needed.split()) for file, _, needed in pairs}


def in_order(names: Iterable[str], needs: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The files to load for the modules ``names``, each after all that it needs.  A name that has
    no file is left out: it is built in, or this kernel has it not."""
    files = {module_name(file): file for file in needs}
    found: dict[str, None] = {}
    for name in names:
        file = files.get(name.replace("-", "_"))
        if file is not None:
            found.update(dict.fromkeys((*reversed(needs[file]), file)))
    return tuple(found)


def module_name(file: str) -> str:
    """The module's name, as ``/proc/modules`` has it.

    >>> module_name("kernel/block/kyber-iosched.ko.xz")
    'kyber_iosched'
    """
    return _ENDINGS.sub("", PurePosixPath(file).name).replace("-", "_")


# -- programs of this machine ----------------------------------------------------------------------

PACKAGES = {
    "mmdebstrap": "mmdebstrap",
    "mke2fs": "e2fsprogs",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
"""Program → Debian's package."""


def missing(host: Host, *programs: str) -> tuple[str, ...]:
    """Those of them that are not installed."""
    script = 'for each; do command -v "$each" >/dev/null || echo "$each"; done'
    return tuple(host.run(["sh", "-c", script, "sh", *programs]).text.split())


def need(host: Host, *programs: str) -> None:
    """Raise RefusedError naming every one that is not installed, and what to install."""
    absent = missing(host, *programs)
    if absent:
        packages = " ".join(sorted({PACKAGES[each] for each in absent}))
        raise RefusedError(
            f"not installed here: {', '.join(absent)}",
            advice=f"As root: apt-get install --no-install-recommends {packages}",
        )


# -- the image -------------------------------------------------------------------------------------

SIZE = "4G"
"""Of the root disk; it is sparse."""
_PARTIAL = ".partial"
_NEWER_TOO = (
    'chroot "$1" apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0'
    " linux-image-amd64/{suite}-backports"
)
"""The kernel that is there stays: it is a package of its own."""
_PACKAGES_WITHIN = 1800.0
_DISK_WITHIN = 300.0
_FORGOTTEN = ("var/cache/apt", "var/lib/apt/lists", "var/log", "tmp", "run")
"""Whose files are removed; daemons expect the folders."""
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LabImage:
    """``folder`` holds it; ``release`` is its kernel's (``uname -r``)."""

    folder: Path
    release: str

    @property
    def base(self) -> Path:
        return self.folder / "base.ext4"

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    @property
    def first(self) -> Path:
        return self.folder / "initrd"


def find(places: LabFolders, kernel: str = "stable") -> LabImage | None:
    """The image with this kernel that today's recipe makes, of any suite; None where there is none
    yet."""
    for folder in (each for images in places.images for each in _below(images)):
        suite = folder.name.partition("-")[0]
        if folder.name == recipe(suite, kernel).name:
            return opened(folder)
    return None


def opened(folder: Path) -> LabImage:
    """The image in a folder.  Raises HostError where it is not whole."""
    try:
        said = json.loads((folder / "image.json").read_bytes())
        image = LabImage(folder, str(said["release"]))
        whole = image.base.stat().st_size == said["size"] and image.kernel.stat().st_size
        why = "" if whole else "base.ext4 is not what was built"
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = str(error)
    if why:
        raise HostError(
            f"the image {folder} is not whole: {why}",
            advice=f"Remove it, and `iotrial vmlab up` builds it again: rm -r {folder}",
        )
    return image


def built(host: Host, places: LabFolders, tell: Tell, kernel: str = "stable") -> LabImage:
    """The image with this kernel (of ``KERNELS``), built now where there is none.

    Raises RefusedError where root or a program is missing, HostError where a step of it fails,
    and LockedError while another builds.
    """
    found = find(places, kernel)
    if found is not None:
        return found
    if host.unprivileged:
        raise RefusedError(
            f"there is no image yet, and it is built as root: {host.unprivileged}",
            advice="Once, as root: iotrial vmlab build; later commands do not need root.",
        )
    need(host, "mmdebstrap", "mke2fs", "unshare", "setpriv")
    come_from = sources(host)
    wanted = recipe(come_from.suite, kernel)
    with host.lock(str(places.locks / "images")):
        _sweep(places.images[0])
        folder = places.images[0] / f"{wanted.name}{_PARTIAL}"
        folder.mkdir(parents=True)
        try:
            _build(host, folder, wanted, come_from, tell)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        image = opened(folder.rename(places.images[0] / wanted.name))
        _drop_older(places, image)
    return image


def _drop_older(places: LabFolders, image: LabImage) -> None:
    """Remove images of the same suite and kernel that an older recipe made, and no lab uses."""
    used = {load(each).image for each in _below(places.labs) if (each / "lab.json").exists()}
    kind = image.folder.name.rpartition("-")[0]
    for folder in _below(image.folder.parent):
        if folder.name.rpartition("-")[0] == kind and folder not in {*used, image.folder}:
            shutil.rmtree(folder)


def _sweep(images: Path) -> None:
    """Remove what a build that was killed left; the caller holds the lock of builds."""
    for folder in _below(images):
        if folder.name.endswith(_PARTIAL):
            shutil.rmtree(folder)


def sweep(host: Host, places: LabFolders) -> None:
    """Remove what killed builds left, of ours.  Raises LockedError while one is at work."""
    if any(each.name.endswith(_PARTIAL) for each in _below(places.images[0])):
        with host.lock(str(places.locks / "images")):
            _sweep(places.images[0])


def _below(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _build(
    host: Host, folder: Path, wanted: ImageRecipe, come_from: PackageSources, tell: Tell
) -> None:
    root = folder / "root"
    tell(f"building {wanted.name}: {len(wanted.packages)} packages and what they need")
    _unpack(host, root, wanted, come_from)
    tell("making its disk")
    versions = (root / "var/lib/dpkg/status").read_text("utf-8", "replace")
    _dress(root, dict(wanted.texts))
    releases = sorted(each.name for each in (root / "lib/modules").iterdir())
    release = releases[0]
    first = dict(wanted.texts)["first.sh"]
    for each in releases:  # so that a node can boot another of its kernels itself
        (root / f"boot/initrd.img-{each}").write_bytes(_first_stage(root, each, first))
    packed = (root / f"boot/vmlinuz-{release}").read_bytes()
    (folder / "kernel").write_bytes(unpacked(packed))
    shutil.copyfile(root / f"boot/initrd.img-{release}", folder / "initrd")
    base = folder / "base.ext4"
    label = ["mke2fs", "-q", "-t", "ext4", "-L", "iotrial", "-d", str(root), str(base), SIZE]
    _do(host, label, _DISK_WITHIN)
    shutil.rmtree(root)
    base.chmod(0o444)
    said = {
        "format": 1,
        "release": release,
        "size": base.stat().st_size,
        "recipe": asdict(wanted),
        "packages": _versions(versions),
    }
    (folder / "image.json").write_text(json.dumps(said, indent=1) + "\n", "utf-8")
    _do(host, ["sync", "-f", str(folder)], _DISK_WITHIN)
    for path in (folder, *list(folder.parents)[:3]):  # images, vmlab, the cache: for every user
        path.chmod(0o755)


def _unpack(host: Host, root: Path, wanted: ImageRecipe, come_from: PackageSources) -> None:
    options = root.with_name("apt.conf")
    options.touch(mode=0o600)  # a proxy may be said with its password
    options.write_text("".join(f"{line}\n" for line in come_from.options), "utf-8")
    newer = _NEWER_TOO.format(suite=come_from.suite)
    command = [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child"),
        *("env", "INITRD=No"),  # no initramfs: linux-image's postinst asks for it
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--quiet"),
        f"--include={','.join(wanted.packages)}",
        *(f"--dpkgopt=path-exclude={each}" for each in wanted.left_out),
        f"--aptopt={options}",
        *([f"--customize-hook={newer}"] if wanted.kernel == "both" else []),
        *(come_from.suite, str(root), "-"),
    ]
    more = backports_of(come_from) if wanted.kernel != "stable" else ()
    lines = "".join(f"{line}\n" for line in (*come_from.lines, *more))
    _do(host, command, _PACKAGES_WITHIN, lines.encode())
    options.unlink()


def _do(host: Host, argv: list[str], within: float, stdin: bytes = b"") -> None:
    done = host.run(argv, stdin=stdin, timeout=within)
    if done.exit != 0:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-12:]
        program = next(word for word in argv if word in ("mmdebstrap", "mke2fs", "sync"))
        raise HostError(
            "\n  ".join([f"{program} failed with exit {done.exit}", *last]),
            advice="Is there room in the cache, and does `apt-get update` work here?",
        )


def _dress(root: Path, texts: dict[str, str]) -> None:
    """Make of a root filesystem as packages leave it one that boots fast and alone."""
    _forget(root)
    units = root / "etc/systemd/system"
    for name, text in ROOT_FILES.items():
        _write(root / name, text)
    for name, text in texts.items():
        if name.endswith(".service"):
            _write(units / name, text)
    program = root / "usr/local/sbin/iotrial-net"
    _write(program, texts["net.sh"])
    program.chmod(0o755)
    for name in MASKED:
        _link(units / name, "/dev/null")
    for name, (unit, target) in WANTED.items():
        _link(units / f"{target}.wants" / name, unit)


def _forget(root: Path) -> None:
    """Remove what building left, host keys, and every start at boot that a package asked for."""
    for path in (each for place in _FORGOTTEN for each in (root / place).rglob("*")):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
    for path in _below(root / "etc/systemd/system"):
        if path.name.endswith((".wants", ".requires")):
            shutil.rmtree(path)
    for pattern in ("ssh/ssh_host_*_key*", "rc?.d/S*", "apt/apt.conf.d/99mmdebstrap"):
        for path in (root / "etc").glob(pattern):
            path.unlink()
    _write(root / "etc/apt/sources.list", "")


def _write(path: Path, text: str) -> None:
    """Replace a file, or what a link led to; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, "utf-8")


def _link(path: Path, to: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(to)


def _first_stage(root: Path, release: str, script: str) -> bytes:
    """The first root filesystem: busybox, the modules, the script."""
    modules = root / "lib/modules" / release
    needs = dependencies((modules / "modules.dep").read_text("ascii"))
    order = in_order(FIRST_MODULES, needs)
    names = [plain.removesuffix(".xz").rpartition("/")[2] for plain in order]
    entries = {
        "init": ImageEntry(script.encode(), 0o755),
        "bin/busybox": ImageEntry((root / "bin/busybox").read_bytes(), 0o755),
        "modules/order": ImageEntry("".join(f"{name}\n" for name in names).encode()),
        **{f"{each}/.keep": ImageEntry(b"") for each in ("proc", "sys", "dev", "new", "seed")},
    }
    for name, file in zip(names, order, strict=True):
        entries[f"modules/{name}"] = ImageEntry(_plain(modules / file))
    return gzip.compress(archive(entries), 6, mtime=0)


def _plain(path: Path) -> bytes:
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _versions(status: str) -> dict[str, str]:
    """Package → version, of dpkg's status file."""
    found: dict[str, str] = {}
    name = ""
    for line in status.splitlines():
        if line.startswith("Package: "):
            name = line[9:]
        elif line.startswith("Version: "):
            found[name] = line[9:]
    return found

"""Sealed: what a load has no business writing, the kernel does not let it write.

Options say what a load will do; the kernel says what it can.  A load that only reads a file or
directory that was there before us runs in mounts of its own (mount_namespaces(7)), in which that is
mounted over itself, read-only: opening it to write, cutting, removing, renaming it end with EROFS
or EBUSY.  In a directory target the folders that the tool works in stay writable, and so a load
that writes there alone is sealed too.  Nothing is left of it: such mounts go with the last process
of the load, however that ends.

A read-only mount does not keep a device node on it from being written.  A load that only reads a
device is therefore kept by Landlock (Documentation/userspace-api/landlock.rst) from opening any
device below /dev for writing; and without root a file or directory is sealed by the same means.
Landlock knows only what is allowed: a rule is made for everything but what is sealed.

Where the kernel or the programs (unshare; perl) do not offer it, the load runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iotrial.model.host import Host
from iotrial.model.tool import inside

if TYPE_CHECKING:
    from iotrial.execute.post import Post

_MISSING = 127
_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
_MOUNT = """\
while [ "$1" != -- ]; do
    case $1 in
        over) mount -n --bind "$2" "$2" ;;
        seal) mount -n -o remount,bind,ro "$2" ;;
    esac || exit 125
    shift 2
done
shift
exec "$@"
"""
"""Arguments: pairs of a word and a path, ``--``, a command, which the shell becomes."""
_DEVICES = "/dev"
_NO_DISKS = tuple(
    f"/dev/{name}" for name in ("null", "zero", "full", "tty", "ptmx", "pts", "shm", "mqueue")
)
"""What programs write below /dev that is no storage."""
_LANDLOCK = r"""
use strict;
my (%sealed, @free);
shift;
while (@ARGV and ($_ = shift) ne "--") {
    my $path = shift;
    /seal/ ? $sealed{$path} = 1 : push @free, $path;
}
my $version = syscall(444, 0, 0, 1);
exit 125 if $version < 1;
my $rights = 1 << 1 | 1 << 5 | ($version >= 3 ? 1 << 14 : 0);
my $attribute = pack("Q", $rights);
my $rules = syscall(444, $attribute, 8, 0);
exit 125 if $rules < 0;
sub allow {
    my $path = shift;
    return if -l $path or !sysopen(my $at, $path, 010000000);
    my $rule = pack("Q l", -d $path ? $rights : $rights & ~(1 << 5), fileno $at);
    syscall(445, $rules, 1, $rule, 0);
}
sub around {
    my $folder = shift;
    opendir(my $all, $folder || "/") or return;
    for my $path (map { "$folder/$_" } grep { !/^\.\.?$/ } readdir $all) {
        next if $sealed{$path};
        (grep { index($_, "$path/") == 0 } keys %sealed) ? around($path) : allow($path);
    }
}
around("");
allow($_) for @free;
syscall(446, $rules, 0) == 0 or exit 125;
exec { $ARGV[0] } @ARGV or exit 127;
"""
"""Arguments: a name, pairs ``seal PATH`` or ``free PATH``, ``--``, a command.  Rights: write,
remove, cut (LANDLOCK_ACCESS_FS_WRITE_FILE, _REMOVE_FILE, _TRUNCATE); 444 to 446 are
landlock_create_ruleset, landlock_add_rule, landlock_restrict_self on every architecture, 010000000
is O_PATH."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a load may not write: ``shut``; and ``free``, what lies in it and it may."""

    shut: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Means:
    """What a host offers to seal with; ``plain`` is how Landlock is asked for."""

    mounts: bool = False
    landlock: tuple[str, ...] = ()


def means(host: Host) -> Means:
    """What there is on this host.  Changes nothing."""
    own = host.run([*_OWN_MOUNTS, "true"])
    if own.exit == _MISSING:
        return Means()
    # Without root the kernel wants a promise that no set-uid program is executed.
    promise = ("setpriv", "--no-new-privs") if host.unprivileged else ()
    landlock = (*promise, "perl", "-e", _LANDLOCK, "iotrial-landlock")
    works = host.run([*landlock, "--", "true"]).exit == 0
    return Means(mounts=own.exit == 0, landlock=landlock if works else ())


def sealing(argv: Sequence[str], seals: Iterable[Seal], offered: Means) -> tuple[str, ...]:
    """The command that does ``argv``, as the same process, without being able to write what is
    sealed, as far as the host offers that."""
    every = tuple(seals)
    devices = any(_DEVICES in each.shut for each in every)
    places = [each for each in every if each.shut and _DEVICES not in each.shut]
    command = tuple(argv)
    shut = [path for each in places for path in each.shut]
    free = [path for each in places for path in each.free]
    mounted = bool(shut) and offered.mounts
    landlocked = [*([_DEVICES] if devices else []), *([] if mounted else shut)]
    if landlocked and offered.landlock:
        also = [*free, *(_NO_DISKS if devices else ())]
        words = [*_pairs("seal", landlocked), *_pairs("free", also)]
        command = (*offered.landlock, *words, "--", *command)
    if mounted:  # around the other: Landlock lets nobody mount
        words = [*_pairs("over", (*shut, *free)), *_pairs("seal", shut)]
        script = ("sh", "-c", _MOUNT, "iotrial-sealed", *words, "--")
        command = (*_OWN_MOUNTS, *script, *command)
    return command


def _pairs(word: str, paths: Iterable[str]) -> list[str]:
    return [each for path in paths for each in (word, path)]


def seal_of(post: Post) -> Seal:
    """What the load of a post may not write of its target.  What iotrial made, or the study arms,
    is nobody's loss."""
    aim, bench = post.aim, post.member.bench
    reach = post.driver.reach(post.workload)
    ours = {aim.path, aim.device} & bench.gone_with or aim.target.name in bench.laid
    if ours or not reach.storage or aim.target.destroy:
        return Seal()
    if aim.target.under_load == "device":
        return Seal() if reach.writes else Seal((_DEVICES,))
    folders = tuple(inside(left.path) for left in post.leaves if left.kind == "folder")
    there_alone = bool(folders) and len(folders) == len(post.leaves) and not reach.paths
    if reach.writes and not (aim.target.kind == "directory" and there_alone):
        return Seal()
    return Seal((aim.path,), folders)

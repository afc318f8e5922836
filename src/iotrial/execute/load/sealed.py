"""Sealed: what a load has no business writing, the kernel does not let it write.

Options say what a load will do; the kernel says what it can.  A load that only reads a file or
directory that was there before us runs in mounts of its own (mount_namespaces(7)), in which that is
mounted over itself, read-only: opening it to write, cutting, removing, renaming it end with EROFS
or EBUSY.  In a directory target the folders that the tool works in stay writable, and so a load
that writes there alone is sealed too.  Nothing is left of it: such mounts go with the last process
of the load, however that ends.

A read-only mount does not keep a device node on it from being written.  Landlock
(Documentation/userspace-api/landlock.rst) therefore keeps every load on files, every command, and
every load that only reads a device, from opening any other disk below /dev for writing, and from
making nodes; in a directory target nodes that lie there do not work (nodev).  Without root a file
or directory is sealed by Landlock as well.  It knows only what is allowed: a rule is made for
everything but what is sealed.

Where the kernel or the programs (unshare; perl) do not offer it, the load runs as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iotrial.model.host import Host

_MISSING = 127
DEV = "/dev"
_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
_MOUNT = """\
while [ "$1" != -- ]; do
    case $1 in
        over) mount -n --bind "$2" "$2" ;;
        *) mount -n -o "remount,bind,$1" "$2" ;;
    esac || exit 125
    shift 2
done
shift
exec "$@"
"""
"""Arguments: pairs of ``over``, or the options of a mount, and a path; ``--``; a command, which the
shell becomes."""
_LANDLOCK = r"""
use strict;
my (%sealed, @free, $disks);
shift;
while (@ARGV and ($_ = shift) ne "--") {
    my $path = shift;
    /disks/ ? $disks = $path : /seal/ ? $sealed{$path} = 1 : push @free, $path;
}
my $version = syscall(444, 0, 0, 1);
exit 125 if $version < 1;
my $of_folders = 1 << 5 | ($version >= 2 ? 1 << 13 : 0);
my $rights = 1 << 1 | $of_folders | ($version >= 3 ? 1 << 14 : 0);
my $nodes = $disks ? 1 << 6 | 1 << 11 : 0;
my $attribute = pack("Q", $rights | $nodes);
my $rules = syscall(444, $attribute, 8, 0);
exit 125 if $rules < 0;
sub allow {
    my $path = shift;
    return if !sysopen(my $at, $path, 010000000);
    my $rule = pack("Q l", -d $path ? $rights : $rights & ~$of_folders, fileno $at);
    syscall(445, $rules, 1, $rule, 0);
}
sub below {
    my $folder = shift;
    opendir(my $all, $folder || "/") or return;
    return grep { !-l } map { "$folder/$_" } grep { !/^\.\.?$/ } readdir $all;
}
sub around {
    for my $path (below(shift)) {
        next if $sealed{$path};
        if ($disks and $path eq $disks) { disks($path) }
        elsif (grep { index($_, "$path/") == 0 } keys %sealed) { around($path) }
        else { allow($path) }
    }
}
sub is_disk {
    my $path = shift;
    return -b $path || -c _ && $path =~ m{/(?:sg\d+|nvme\d+|ng\d+n\d+|k?mem|port|(?:bsg|raw)/.+)$};
}
sub holds { my $path = shift; return -d $path ? grep({ holds($_) } below($path)) : is_disk($path) }
sub disks {
    my $folder = shift;
    my $own = (stat $folder)[0];
    for my $path (below($folder)) {
        if (-d $path and (stat _)[0] == $own and holds($path)) { disks($path) }
        elsif (-d $path or !is_disk($path)) { allow($path) }
    }
}
around("");
allow($_) for @free;
syscall(446, $rules, 0) == 0 or exit 125;
exec { $ARGV[0] } @ARGV or exit 127;
"""
"""Arguments: a name, pairs ``disks /dev``, ``seal PATH`` or ``free PATH``, ``--``, a command.
Rights: write, remove, refer, cut (LANDLOCK_ACCESS_FS_WRITE_FILE, _REMOVE_FILE, _REFER,
_TRUNCATE), and, given to nobody, to make nodes (_MAKE_CHAR, _MAKE_BLOCK); 444 to 446 are
landlock_create_ruleset, landlock_add_rule, landlock_restrict_self on every architecture, 010000000
is O_PATH.  Disks are block devices, and character devices that lead to one (sg, bsg, NVMe's).
What is mounted below /dev (shm, pts) holds none."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a load may not write: ``shut``; and ``free``, what lies in it and it may.  ``disks``:
    it may write no disk but those that are ``free``; no node in ``nodeless`` works; ``nodes`` are
    nodes beside those in /dev that it may read alone, which no mount enforces."""

    shut: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    disks: bool = False
    nodeless: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxSupport:
    """What a host offers to seal with; ``plain`` is how Landlock is asked for."""

    mounts: bool = False
    landlock: tuple[str, ...] = ()


def means(host: Host) -> SandboxSupport:
    """What there is on this host.  Changes nothing."""
    own = host.run([*_OWN_MOUNTS, "true"])
    if own.exit == _MISSING:
        return SandboxSupport()
    # Without root the kernel wants a promise that no set-uid program is executed.
    promise = ("setpriv", "--no-new-privs") if host.unprivileged else ()
    landlock = (*promise, "perl", "-e", _LANDLOCK, "iotrial-landlock")
    works = host.run([*landlock, "--", "true"]).exit == 0
    return SandboxSupport(mounts=own.exit == 0, landlock=landlock if works else ())


def sealing(
    argv: Sequence[str], seals: Iterable[Sandbox], offered: SandboxSupport
) -> tuple[str, ...]:
    """The command that does ``argv``, as the same process, without being able to write what is
    sealed, as far as the host offers that.  Disks are closed where no load may write them all."""
    every = tuple(seals)
    disks = bool(every) and all(each.disks for each in every)
    command = tuple(argv)
    shut = [path for each in every for path in each.shut]
    free = [path for each in every for path in each.free]
    nodeless = [path for each in every for path in each.nodeless]
    landlocked = [*_pairs("disks", [DEV] if disks else []),
                  *_pairs("seal", [] if offered.mounts else shut),
                  *_pairs("seal", [path for each in every for path in each.nodes])]  # fmt: skip
    if landlocked and offered.landlock:
        command = (*offered.landlock, *landlocked, *_pairs("free", free), "--", *command)
    if offered.mounts and (shut or nodeless):  # around the other: Landlock lets nobody mount
        inside_of = [path for each in every if each.shut for path in each.free]
        over = dict.fromkeys([*nodeless, *shut, *inside_of])
        words = _pairs("over", over)
        for path in dict.fromkeys([*shut, *nodeless]):
            options = ("ro",) * (path in shut) + ("nodev",) * (path in nodeless)
            words += [",".join(options), path]
        script = ("sh", "-c", _MOUNT, "iotrial-sealed", *words, "--")
        command = (*_OWN_MOUNTS, *script, *command)
    return command


def _pairs(word: str, paths: Iterable[str]) -> list[str]:
    return [each for path in paths for each in (word, path)]

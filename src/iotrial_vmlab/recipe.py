"""What an image is made of: packages, and a few files.  Its checksum is the image's name.  And
where this machine gets its packages from, as its own apt reads its configuration.

No mirror is part of the recipe: the same packages are the same image, wherever they came from.
What is configured here, with its proxies, is used; what newer versions of packages there are is
only asked when an image is built.

Sources: mmdebstrap(1); dpkg(1) ``path-exclude``; systemd.unit(5) (masking); apt-get(8)
``indextargets``, apt-config(8), sources.list(5), apt.conf(5).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.resources import files

from iotrial.errors import HostError
from iotrial.model.host import Host

FORMAT = 3
"""Of the image's folder, and of what is done to the root filesystem: raise it when that changes."""
KERNELS = {
    "stable": "linux-image-amd64",
    "backports": "linux-image-amd64/{suite}-backports",
    "both": "linux-image-amd64",
}
"""Kernel → its package, as apt-get(8) takes it; of ``both`` the one that nodes start with, and the
newer one is installed beside it."""
_LOADERS = ("grub-pc-bin", "grub2-common", "systemd-boot", "dosfstools")
"""Of nodes with both kernels: what their own firmware starts them by."""
_LEFT_OUT = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/lib/modules/*/kernel/sound/*",
    "/lib/modules/*/kernel/drivers/gpu/*",
    "/lib/modules/*/kernel/drivers/media/*",
    "/lib/modules/*/kernel/drivers/net/wireless/*",
)
FIRST_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "crc32c_generic")
"""What must be there before the root disk is mounted."""

_IDLE = ("acpi", "bdi", "mem", "tty", "vc", "wakeup", "workqueue")
"""Subsystems of the kernel whose devices no lab has a use for: to plug each of them in at boot, by
all of udev's rules, costs an emulated processor seconds."""
_UNASKED = ("cryptsetup", "getty", "gpt-auto", "hibernate-resume", "integritysetup", "veritysetup")
"""Generators of units that no lab has."""
_PLUGGED = "--type=all --action=add --prioritized-subsystem=module,block,net"

ROOT_FILES = {
    "etc/fstab": "",
    "etc/machine-id": "",
    "etc/hostname": "node\n",
    "etc/resolv.conf": "",
    "etc/ssh/sshd_config.d/iotrial.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\nUseDNS no\nUsePAM no\nMaxStartups 100\n"
    ),
    # Shared disks: nothing may assemble what another node has in use.
    "etc/mdadm/mdadm.conf": "AUTO -all\n",
    "etc/systemd/journald.conf.d/iotrial.conf": "[Journal]\nStorage=volatile\nRuntimeMaxUse=8M\n",
    "etc/systemd/system/systemd-udev-trigger.service.d/iotrial.conf": (
        "[Service]\nExecStart=\n"
        f"ExecStart=-udevadm trigger {_PLUGGED} {' '.join(f'-S {each}' for each in _IDLE)}\n"
    ),
    **{f"etc/systemd/system-generators/systemd-{each}-generator": "" for each in _UNASKED},
    # nfsrahead says nothing of other devices: as each appears, it would be asked.
    "etc/udev/rules.d/99-nfs.rules": (
        'SUBSYSTEM=="bdi", ACTION=="add", KERNEL=="0:*", PROGRAM="/usr/libexec/nfsrahead %k",'
        ' ATTR{read_ahead_kb}="%c"\n'
    ),
    "etc/udev/rules.d/85-hdparm.rules": "",
    "etc/systemd/system.conf.d/iotrial.conf": "[Manager]\nDefaultTimeoutStopSec=10s\n",
}
"""Written over those that the packages brought."""
MASKED = (
    "getty@.service",
    "serial-getty@.service",
    "getty-static.service",
    "systemd-logind.service",
    "e2scrub_reap.service",
    "systemd-timesyncd.service",
    "systemd-update-utmp.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-user-sessions.service",
    "systemd-sysusers.service",
    "systemd-binfmt.service",
    "proc-sys-fs-binfmt_misc.automount",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-tracing.mount",
    "systemd-pstore.service",
    "systemd-repart.service",  # which has loop load, and eight devices of it appear
    "systemd-firstboot.service",
    "systemd-machine-id-commit.service",
    "nfs-blkmap.service",
)
WANTED = {
    "ssh.service": ("/lib/systemd/system/ssh.service", "multi-user.target"),
    "iotrial-net.service": ("/etc/systemd/system/iotrial-net.service", "sysinit.target"),
    "iotrial-ready.service": ("/etc/systemd/system/iotrial-ready.service", "multi-user.target"),
}
"""The only units that are enabled: nobody asked for the others that the packages brought."""


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """``kernel`` is a name of :data:`KERNELS`; ``texts`` are the guest's files."""

    suite: str
    kernel: str
    packages: tuple[str, ...]
    left_out: tuple[str, ...]
    texts: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The image's: what it is for people, and the beginning of its checksum."""
        own = [FORMAT, FIRST_MODULES, ROOT_FILES, MASKED, WANTED, asdict(self)]
        said = json.dumps(own, sort_keys=True)
        return f"{self.suite}-{self.kernel}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def recipe(suite: str, kernel: str = "stable") -> ImageRecipe:
    """The recipe for a suite of Debian: with its own kernel, that of its backports, or both."""
    folder = files("iotrial_vmlab") / "guest"
    texts = {each.name: each.read_text("utf-8") for each in folder.iterdir() if each.is_file()}
    lines = texts.pop("packages.txt").splitlines()
    words = [word for line in lines if not line.startswith("#") for word in line.split()]
    image = KERNELS[kernel].format(suite=suite)
    words += _LOADERS if kernel == "both" else ()
    return ImageRecipe(suite, kernel, (image, *words), _LEFT_OUT, tuple(sorted(texts.items())))


# -- where packages come from ----------------------------------------------------------------------

LINES = "$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
_PARTS = ("", "-updates", "-security", "/updates")
_OPTIONS = (
    "Acquire::http::",
    "Acquire::https::",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
    "Acquire::Retries",
    "Acquire::ForceIPv",
)
"""How apt gets at servers, and what it asks of their answers.  What else is configured is this
machine's own business (hooks, languages)."""
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


@dataclass(frozen=True, slots=True)
class PackageSources:
    """``suite`` is the distribution's code name, ``lines`` are those of a sources.list, and
    ``options`` are lines of an apt.conf."""

    suite: str
    lines: tuple[str, ...]
    options: tuple[str, ...]


def suite_of(release: str) -> str:
    """The code name in ``os-release``; '' where it is not Debian.

    >>> suite_of('ID=debian\\nVERSION_CODENAME=bookworm')
    'bookworm'
    """
    said = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    plain = {key: value.strip("\"'") for key, value in said.items()}
    return plain.get("VERSION_CODENAME", "") if plain.get("ID") == "debian" else ""


def lines_of(targets: str, suite: str) -> tuple[str, ...]:
    """Lines of a sources.list for the distribution itself, from what ``apt-get indextargets`` says
    in the form :data:`LINES`: its component main, its updates and security updates."""
    wanted = {f"{suite}{part}" for part in _PARTS}
    found: dict[str, None] = {}
    for line in targets.splitlines():
        uri, release, component = [*line.split("|"), "", ""][:3]
        if component == "main" and release in wanted:
            found[f"deb [signed-by={KEYRING}] {uri} {release} main"] = None
    return tuple(found)


def backports_of(sources: PackageSources) -> tuple[str, ...]:
    """The lines of its backports: they lie where the distribution itself does.

    >>> backports_of(Sources("sid", ("deb [a] http://x sid main", "deb http://x sid-up main"), ()))
    ('deb [a] http://x sid-backports main',)
    """
    own = f" {sources.suite} main"
    ours = (line.removesuffix(own) for line in sources.lines if line.endswith(own))
    return tuple(f"{line} {sources.suite}-backports main" for line in ours)


def options_of(dump: str) -> tuple[str, ...]:
    """Those lines of ``apt-config dump`` that say how to get at servers."""
    return tuple(
        line
        for line in dump.splitlines()
        if line.startswith(_OPTIONS) and not line.endswith(' "";')
    )


def sources(host: Host) -> PackageSources:
    """What ``host`` has configured.

    Raises HostError where it is no Debian, or apt has no source of it.
    """
    suite = suite_of(host.read("/etc/os-release").decode("utf-8", "replace"))
    if not suite:
        raise HostError(
            f"{host.name}: an image is built of Debian's packages, and this is not a Debian",
            advice="Build it on Debian 12 or newer, as root, and copy the folder "
            "vmlab/images of its cache here.",
        )
    targets = host.run(["apt-get", "indextargets", "--format", LINES, "Identifier: Packages"])
    lines = lines_of(targets.text, suite)
    if not lines:
        raise HostError(
            f"{host.name}: apt has no source of {suite} main: {targets.complaint}",
            advice="Check /etc/apt/sources.list and sources.list.d; then: apt-get update",
        )
    return PackageSources(
        suite, lines, options_of(host.run(["apt-config", "dump", "Acquire"]).text)
    )

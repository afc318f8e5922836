"""Words of the kernel's command line, for the next boots: what a study of boots measured.

On Debian and Ubuntu a file of our own in ``/etc/default/grub.d``, which ``sh`` reads for
grub-mkconfig(8).  ``GRUB_CMDLINE_LINUX_DEFAULT`` comes last on the line, so that our words win over
all others, and entries for recovery go without it: there is a way to boot without our words.
Where systemd-boot boots the host, they are added to ``/etc/kernel/cmdline``, of which
kernel-install(8) makes the entries: there is one such file, and no folder of parts.  Which of them
it is, the host is asked (:mod:`iotrial.execute.keep.loader`).

Parameters of modules are among them whether a module is built in, in the initramfs, or loaded
later: modprobe(8) reads the command line too, after its own files.  So they are kept in the place
where they were measured, and no initramfs has to be made anew.

Sources: /etc/grub.d/10_linux and grub-mkconfig of GRUB 2.06 and 2.12; kernel-install(8) and its
90-loaderentry.install; modprobe.d(5).
"""

from __future__ import annotations

from dataclasses import replace

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import NativeFile, NativeFormat, header, is_word
from iotrial.keep.profile import Profile
from iotrial.tunables.boot import KERNEL, UNSET, is_boot, word

GRUB, KERNEL_INSTALL = "grub", "kernel-install"
LOADERS = {GRUB: "GRUB", KERNEL_INSTALL: "systemd-boot"}
"""What each is called."""
COMMAND_LINE = "/etc/kernel/cmdline"
FOLDER = "/etc/default/grub.d/"
NEXT_BOOT = "takes effect at the next boot"
_ELSEWHERE = (
    f"on a host that systemd-boot boots, the words go to {COMMAND_LINE} in place of this file, and"
    " kernel-install is executed in place of update-grub"
)


def words(entries: tuple[KeptSetting, ...]) -> str:
    """What is added to the command line."""
    return " ".join(word(entry.tunable, entry.value) for entry in entries)


def _takes(entry: KeptSetting) -> bool:
    known = is_boot(entry.tunable) and entry.tunable != KERNEL and entry.value != UNSET
    return known and is_word(entry.value)


def _write(profile: Profile) -> tuple[NativeFile, ...]:
    path = f"{FOLDER}zz-iotrial-{profile.name}.cfg"
    text = header(profile, profile.entries, f"rm {path}, update-grub, reboot")
    text += (
        f'GRUB_CMDLINE_LINUX_DEFAULT="${{GRUB_CMDLINE_LINUX_DEFAULT-}} {words(profile.entries)}"\n'
    )
    return (
        NativeFile(
            path,
            text,
            profile.entries,
            reload=(("update-grub",),),
            notes=(NEXT_BOOT, _ELSEWHERE),
            loader=GRUB,
        ),
    )


def added(file: NativeFile, former: str) -> NativeFile:
    r"""The same words in the file of which kernel-install makes entries; ``former`` is what it has.
    Behind ``--`` they would be init's, and lines that begin with ``#`` are comments.

    >>> added(NativeFile("", "", (KeptSetting("boot.a", "1"),)), "root=/dev/vda -- x\n# y\n").text
    'root=/dev/vda a=1 -- x\n# y\n'
    """
    lines = former.splitlines()
    said = [at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    at = said[-1] if said else len(lines)
    lines += [] if said else [""]
    own, init, rest = f" {lines[at]} ".partition(" -- ")
    lines[at] = f"{own.rstrip()} {words(file.entries)}{init}{rest}".strip()
    return replace(
        file,
        path=COMMAND_LINE,
        text="\n".join(lines) + "\n",
        reload=((KERNEL_INSTALL, "add"),),
        notes=(NEXT_BOOT,),
        loader=KERNEL_INSTALL,
    )


NATIVE = NativeFormat(
    "boot",
    "words for the kernel's command line, /etc/default/grub.d",
    "kernel-parameters.rst, grub-mkconfig(8), kernel-install(8)",
    order=35,
    takes=_takes,
    write=_write,
    readers=(),
    longest=2000,
)

"""The boot loader of a host, for words that are kept on the kernel's command line.

``loader.sh`` is what is executed on the host: which loader it is, and its menu made anew.  A file
with such words (``NativeFile.loader``) counts only when the menu has them, so both are one change.
That the menu has to be made anew is written down before the file is (``NAME.menu`` beside the
journal), and owed until it is made with the former file: a death between the two is made up for by
whoever undoes it, and so is a menu that could not be made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.resources import files

from iotrial.errors import HostError, RefusedError
from iotrial.execute.settings.tuning import put_back
from iotrial.keep.native import NativeExport, NativeFile
from iotrial.keep.native.boot import (
    COMMAND_LINE,
    FOLDER,
    GRUB,
    KERNEL_INSTALL,
    LOADERS,
    NEXT_BOOT,
    added,
    words,
)
from iotrial.model.host import Host
from iotrial.model.step import Change, Probe
from iotrial.model.tunable import FormerValue, Setting

MENU = ".menu"
_SCRIPT = "iotrial-loader"
_WITHIN = 600.0
"""Seconds that a menu may take: grub-mkconfig looks for other systems on each disk, and
kernel-install may make an initramfs for each kernel."""
_STAMP = "a boot loader's menu has words of `iotrial keep`, or had\n"
_MENU_OF, _AS_BEFORE = "menu of ", "as before"
_FILE = 7
"""Where ``sh -c SCRIPT NAME back LOADER WORDS FILE …`` has its file."""
_ADDED_BY_BOOTS = ("BOOT_IMAGE=", "initrd=", "systemd.machine_id=")


@cache
def _script() -> str:
    return files("iotrial.hosts").joinpath("loader.sh").read_text("utf-8")


def _told(*arguments: str) -> tuple[str, ...]:
    return ("sh", "-c", _script(), _SCRIPT, *arguments)


def _loader_of(host: Host) -> tuple[str, str]:
    """The loader whose menu iotrial can make anew, or '' and why there is none."""
    done = host.run(_told("which"))
    rows = [line.split("|", 2) for line in done.text.splitlines() if line.count("|") > 1]
    if not rows:
        raise HostError(f"{host.name}: its boot loader cannot be told: {done.complaint}")
    for kind, name, _ in rows:
        if kind == "loader" and name in LOADERS:
            return name, ""
    return "", "; ".join(f"{LOADERS.get(name, name)}: {why}" for _, name, why in rows)


def fitted(host: Host, exported: NativeExport, *, tried: bool = False) -> NativeExport:
    """The same with the files that this host's boot loader has.  ``tried``: the host runs a boot
    with these words.  Raises RefusedError where it has no loader that is known, before anything is
    changed."""
    if not any(each.loader for each in exported.files):
        return exported
    name, why = _loader_of(host)
    return replace(
        exported,
        files=tuple(_fitting(host, each, name, why, tried=tried) for each in exported.files),
    )


def _fitting(host: Host, file: NativeFile, name: str, why: str, *, tried: bool) -> NativeFile:
    if not file.loader:
        return file
    if not name:
        raise _unknown(host, file, why)
    if name != KERNEL_INSTALL:
        return replace(file, notes=(NEXT_BOOT,))
    former = host.read(COMMAND_LINE).decode("utf-8", "surrogateescape")
    runs = host.read("/proc/cmdline").decode("utf-8", "surrogateescape")
    if not tried:  # before that boot they were compared
        _refuse_differing(host, _own(former), _own(runs))
    return added(file, former)


def _own(text: str) -> set[str]:
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    every = {word for line in lines for word in line.split()}
    return {word for word in every if not word.startswith(_ADDED_BY_BOOTS)}


def _refuse_differing(host: Host, written: set[str], runs: set[str]) -> None:
    """The entries would be made of what the host was not booted with: it might not come up."""
    if written == runs:
        return
    told = [
        f"{where} has {' '.join(sorted(more))}"
        for where, more in (
            (f"only {COMMAND_LINE}", written - runs),
            ("only the running kernel", runs - written),
        )
        if more
    ]
    raise RefusedError(
        f"{host.name}: {COMMAND_LINE} is not what this host was booted with: {'; '.join(told)}",
        advice=f"Correct {COMMAND_LINE}, `kernel-install add` each kernel, boot, and try again.",
    )


def _unknown(host: Host, file: NativeFile, why: str) -> RefusedError:
    added_words = words(file.entries)
    return RefusedError(
        f"{host.name}: {added_words} cannot be kept: its boot loader is none that iotrial knows"
        f" how to configure ({why})",
        advice=f"Remove it from the profile, and add {added_words} to the kernel's command line as"
        f' the distribution says: grubby --update-kernel=ALL --args="{added_words}" (RHEL, SUSE),'
        " or the file of the boot loader.",
    )


def check_fitting(host: Host, every: Iterable[NativeFile]) -> None:
    """Raise RefusedError where a file is for another boot loader than the host's."""
    mine = [each for each in every if each.loader]
    if not mine:
        return
    name, why = _loader_of(host)
    for each in mine:
        if each.loader != name:
            raise _unknown(host, each, why or f"{LOADERS[name]} boots it")


def former_menu(file: NativeFile, stamp: str, beside: str, digest: str) -> FormerValue:
    """What makes the menu anew once ``file`` is what it was: nothing lies ``beside`` it any more,
    and it is gone, or has another sum than ``digest``.  Comes after what gives the file back."""
    lies = (file.path, beside, digest)
    acts = (
        Change("run", argv=_told("back", file.loader, words(file.entries), *lies)),
        Change("remove", path=stamp),
    )
    setting = Setting("", f"{_MENU_OF}{LOADERS[file.loader]}", _AS_BEFORE)
    return FormerValue(setting, Probe(stamp, pick="whole", absent=_AS_BEFORE), acts, durable=True)


def give_back(host: Host, owed: Sequence[FormerValue]) -> list[str]:
    """Give a menu and its file back with all the time that a menu may take: a step of a restore has
    a minute.  Says what was done; what was not is still owed, and whoever restores says why."""
    menus = [each for each in owed if each.setting.tunable.startswith(_MENU_OF)]
    done: list[str] = []
    for menu in menus:
        made = menu.acts[0].argv
        mine = [each for each in owed if each.setting.tunable == f"file:{made[_FILE]}"]
        with suppress(HostError):
            if not put_back(host, mine) and host.run(made, timeout=_WITHIN).exit == 0:
                done += [f"restored {each.setting}" for each in mine]
    return done


def stamp_menus(host: Host, stamp: str, every: Iterable[NativeFile]) -> None:
    """From now on the menu is owed."""
    if any(each.loader for each in every):
        host.save(stamp, _STAMP.encode())


def make_menus(host: Host, every: Iterable[NativeFile]) -> None:
    """Have the menu show the words, and see that it does.  Raises HostError."""
    for each in every:
        if each.loader:
            argv = _told("update", each.loader, words(each.entries))
            done = host.run(argv, timeout=_WITHIN)
            if done.exit:
                raise HostError(
                    f"{host.name}: the menu of {LOADERS[each.loader]} cannot be made:"
                    f" {done.complaint}",
                    advice="Fix this first; no setting was kept.",
                )


def menu_has(host: Host, loader: str, added_words: str) -> bool:
    """Whether an entry of the menu has these words."""
    return host.run(_told("has", loader, added_words)).exit == 0


def loader_of_paths(paths: Sequence[str]) -> str:
    """The loader that files at these places are read for; '' where none is."""
    if COMMAND_LINE in paths:
        return KERNEL_INSTALL
    return GRUB if any(path.startswith(FOLDER) for path in paths) else ""

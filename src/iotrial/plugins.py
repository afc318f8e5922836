"""Plugins: what may be added to iotrial, and where it comes from.

A plugin is a Python module with one name or more of :data:`KINDS` (``TOOL``, ``FORMAT``, …).  Every
registry asks here, and gets, in this order:

1. what iotrial brings: each module of the packages of that kind, those of wings included;
2. what an installed package offers as an entry point of the group ``iotrial.KIND``;
3. the files of the user's own folder, :func:`folder`.

Two plugins of one name are an error, because nobody could tell which one a result came from.  One
that cannot be loaded is named in a :class:`PluginWarning`, and the others work without it.

Source: PyPA, "Entry points specification".
"""

from __future__ import annotations

import hashlib
import importlib
import itertools
import os
import pkgutil
import stat
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from iotrial.errors import UsageError


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of plugin.

    ``attribute`` is what a module of it has (``@rule``, ``@check``: whatever its name, each value
    of the type is a plugin), ``packages`` where iotrial's own modules of it are (also those of
    wings, which may not be installed), ``type`` what a plugin must be (of tunables, each of them),
    as ``module:class``; ``about`` a line for people; ``conformance`` the module whose ``of_KIND``
    says what a plugin does not do as it must.
    """

    name: str
    attribute: str
    packages: tuple[str, ...]
    type: str
    about: str
    conformance: str = "iotrial.conformance"

    @property
    def entry_points(self) -> str:
        """The group of entry points by which a package offers plugins of this kind."""
        return f"iotrial.{self.name}"


KINDS: Mapping[str, PluginKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            PluginKind(
                "tunables",
                "TUNABLES",
                ("iotrial.tunables",),
                "iotrial.model.tunable:Tunable",
                "settings that a study can vary",
            ),
            PluginKind(
                "tools", "TOOL", ("iotrial.tools",), "iotrial.model.tool:Tool", "load generators"
            ),
            PluginKind(
                "formats",
                "FORMAT",
                ("iotrial.formats", "iotrial_import.formats"),
                "iotrial.model.recording:RecordingFormat",
                "importers of results of other tools",
            ),
            PluginKind(
                "validity",
                "@check",
                ("iotrial.validity",),
                "iotrial.model.validity:ValidityCheck",
                "validity checks",
            ),
            PluginKind(
                "lint",
                "@rule",
                ("iotrial_lint.rules",),
                "iotrial_lint.rule:Rule",
                "rules for settings that cannot work",
                "iotrial_lint.conformance",
            ),
            PluginKind(
                "suites",
                "SUITE",
                ("iotrial_suites.suites",),
                "iotrial_suites.case:Suite",
                "functional tests of storage",
                "iotrial_suites.conformance",
            ),
            PluginKind(
                "native",
                "NATIVE",
                ("iotrial.keep.native",),
                "iotrial.keep.native:NativeFormat",
                "native files that keep a setting across a boot",
            ),
            PluginKind(
                "sections",
                "SECTION",
                (),
                "iotrial.report.sections:ReportSection",
                "sections of a report",
            ),
            PluginKind(
                "reports",
                "REPORT",
                ("iotrial_suites.together", "iotrial_record.reports"),
                "iotrial.report.sections:FolderReport",
                "reports of several folders",
            ),
            PluginKind(
                "hosts",
                "HOST",
                ("iotrial.hosts.via",),
                "iotrial.model.host:Connector",
                "ways to reach a host",
            ),
            PluginKind(
                "labs",
                "LAB",
                ("iotrial_vmlab.labs",),
                "iotrial_vmlab.lab:LabKind",
                "virtual machines with disks",
                "iotrial_vmlab.conformance",
            ),
        )
    }
)
"""Every kind by its name."""


class PluginWarning(UserWarning):
    """A plugin was left out: which one, and why."""


@dataclass(frozen=True, slots=True)
class PluginOrigin:
    """Where a plugin comes from.

    ``place`` is the module, the installed distribution or the file; ``version`` that of the
    distribution, or of a file ``sha256:`` and the first 12 digits of its digest.
    """

    kind: Literal["built-in", "package", "file"]
    place: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.place} {self.version}".strip()


@dataclass(frozen=True, slots=True)
class Plugin:
    """``value`` is what the module has under the attribute of its kind; ``module`` that module."""

    kind: PluginKind
    name: str
    value: Any
    module: ModuleType
    origin: PluginOrigin


@cache
def plugins(kind: str) -> tuple[Plugin, ...]:
    """Every plugin of a kind, by name.  Raises UsageError where two have one name."""
    found = _found(KINDS[kind])
    for one, other in itertools.pairwise(found):
        if one.name == other.name:
            raise conflict(one.name, one, other)
    return found


def values(kind: str) -> Mapping[str, Any]:
    """The values of every plugin of a kind by name, in alphabetical order."""
    return MappingProxyType({plugin.name: plugin.value for plugin in plugins(kind)})


def one(kind: str, name: str) -> Plugin | None:
    """The plugin of a kind that has this name, whatever is wrong with those of other names.

    Raises UsageError where two have it."""
    found = [plugin for plugin in _found(KINDS[kind]) if plugin.name == name]
    if len(found) > 1:
        raise conflict(name, *found[:2])
    return found[0] if found else None


def added(kind: str) -> tuple[Plugin, ...]:
    """The plugins of a kind that iotrial does not bring."""
    return tuple(plugin for plugin in plugins(kind) if plugin.origin.kind != "built-in")


def wing(module: str) -> ModuleType | None:
    """A module of a wing (a package beside the core, such as ``iotrial_lint``), imported; None
    where the wing is not installed.  The core reaches a wing through here alone."""
    root = module.partition(".")[0]
    try:
        importlib.import_module(root)
    except ModuleNotFoundError as error:
        if error.name != root:
            raise
        return None
    return importlib.import_module(module)


def modules(package: str) -> Iterator[ModuleType]:
    """Every module of a package of iotrial's, also of the packages in it, imported, by name."""
    parent = wing(package)
    if parent is None:
        return
    for each in sorted(pkgutil.walk_packages(parent.__path__, f"{package}."), key=lambda m: m.name):
        yield importlib.import_module(each.name)


def clash(plugin: Plugin) -> Plugin | None:
    """Another plugin of its kind and name, from elsewhere."""
    return next(
        (
            other
            for other in _found(plugin.kind)
            if other.name == plugin.name and other.origin.place != plugin.origin.place
        ),
        None,
    )


def conflict(name: str, one: Plugin, other: Plugin) -> UsageError:
    """What is said of two plugins that both define ``name``."""
    return UsageError(
        f"two plugins of {one.kind.name} define {name!r}: {one.origin}, and {other.origin}",
        advice="Rename one of them, or remove its file or package.",
    )


@cache
def _found(kind: PluginKind) -> tuple[Plugin, ...]:
    found = (*_built_in(kind), *_of_packages(kind), *_of_files(kind))
    # What a module imports from another one is that one's.
    once: dict[tuple[int, str], Plugin] = {}
    for plugin in found:
        once.setdefault((id(plugin.value), plugin.name), plugin)
    return tuple(sorted(once.values(), key=lambda one: one.name))


# -- what iotrial brings --------------------------------------------------------------------------


def _built_in(kind: PluginKind) -> Iterator[Plugin]:
    for module in itertools.chain(*map(modules, kind.packages)):
        for value in _values(kind, module):
            yield _plugin(kind, value, module, PluginOrigin("built-in", module.__name__))


def _plugin(kind: PluginKind, value: Any, module: ModuleType, origin: PluginOrigin) -> Plugin:  # noqa: ANN401
    name = str(module.FAMILY if kind.name == "tunables" else value.name)
    return Plugin(kind, name, value, module, origin)


def _values(kind: PluginKind, module: ModuleType) -> tuple[Any, ...]:
    """What a module has of a kind."""
    if not kind.attribute.startswith("@"):
        return (getattr(module, kind.attribute),) if hasattr(module, kind.attribute) else ()
    of = _type(kind)
    return tuple(value for value in vars(module).values() if isinstance(value, of))


def _type(kind: PluginKind) -> type:
    place, _, wanted = kind.type.partition(":")
    found: type = getattr(importlib.import_module(place), wanted)
    return found


# -- what installed packages offer ----------------------------------------------------------------


def _of_packages(kind: PluginKind) -> Iterator[Plugin]:
    for point in entry_points(group=kind.entry_points):
        origin = PluginOrigin("package", *_distribution(point))
        try:
            found = point.load()
            if not isinstance(found, ModuleType):
                raise TypeError(f"{point.value} is not a module")  # noqa: TRY301 (told below)
            yield from _checked(kind, found, origin)
        except Exception as error:  # noqa: BLE001 (whatever somebody else's module raises)
            _left_out(f"entry point {point.name!r} of {origin}", error)


def _distribution(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist else (point.module, "")


def _checked(kind: PluginKind, module: ModuleType, origin: PluginOrigin) -> tuple[Plugin, ...]:
    """Raises TypeError for a module without one of the kind, or with one of another type, which
    would make all plugins of the kind fail."""
    found, of = _values(kind, module), _type(kind)
    if not found:
        raise TypeError(f"it has no {kind.attribute}, required in {kind.entry_points}")
    for value in found:
        for each in value if kind.name == "tunables" else (value,):
            if not isinstance(each, of):
                got = type(each).__name__
                raise TypeError(f"its {kind.attribute} is of type {got}, not {of.__name__}")
    return tuple(_plugin(kind, value, module, origin) for value in found)


# -- the user's own folder ------------------------------------------------------------------------


def folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the user's own plugins are: ``IOTRIAL_PLUGINS`` (empty: nowhere), else
    ``~/.config/iotrial/plugins``.

    Source: XDG Base Directory Specification 0.8 (``XDG_CONFIG_HOME``).
    """
    if (chosen := environment.get("IOTRIAL_PLUGINS")) is not None:
        return Path(chosen) if chosen else None
    home = environment.get("XDG_CONFIG_HOME") or f"{environment.get('HOME', '/')}/.config"
    return Path(home) / "iotrial" / "plugins"


def in_file(path: Path) -> tuple[Plugin, ...]:
    """The plugins of one file, of every kind.

    Raises UsageError for a file that may not be trusted, cannot be imported or holds none.
    """
    try:
        return _loaded(path.absolute())
    except Exception as error:
        raise UsageError(
            f"{path}: {_said(error)}",
            advice=f"A plugin is a module with one of: {', '.join(_attributes())}.",
        ) from error


def refuse_others(path: Path) -> None:
    """As root, iotrial executes only what nobody but root can change.

    Raises PermissionError for a file, or a folder above it, that somebody else owns or may write
    to.  A folder with the sticky bit may be written to: root's own files in it stay root's.
    """
    if os.geteuid():
        return
    real = path.resolve()
    for place in (real, *real.parents):
        status = place.stat()
        open_to_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if place.is_dir() and status.st_mode & stat.S_ISVTX:
            open_to_others = 0
        if status.st_uid or open_to_others:
            why = (
                f"belongs to uid {status.st_uid}" if status.st_uid else "is writable by other users"
            )
            raise PermissionError(
                f"{place} {why}; root must not execute files that others can change (chown root"
                f" {place}; chmod go-w {place})"
            )


@cache
def _files() -> tuple[Plugin, ...]:
    place = folder()
    found: list[Plugin] = []
    for path in sorted(place.glob("*.py")) if place else ():
        try:
            found += _loaded(path)
        except Exception as error:  # noqa: BLE001 (whatever the user's file raises)
            _left_out(str(path), error)
    return tuple(found)


def _of_files(kind: PluginKind) -> Iterator[Plugin]:
    return (plugin for plugin in _files() if plugin.kind is kind)


def _loaded(path: Path) -> tuple[Plugin, ...]:
    refuse_others(path)
    data = path.read_bytes()
    module = ModuleType(f"iotrial_plugins.{path.stem}")
    module.__file__ = str(path)
    # What is executed are the bytes of which the digest is: the file may change at any time.
    code = compile(data, path, "exec")
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    try:
        exec(code, module.__dict__)  # noqa: S102 (this is what a plugin is for)
    except BaseException:
        del sys.modules[module.__name__]
        raise
    origin = PluginOrigin("file", str(path), f"sha256:{hashlib.sha256(data).hexdigest()[:12]}")
    found = tuple(
        plugin
        for kind in KINDS.values()
        if wing(kind.type.partition(":")[0]) and _values(kind, module)
        for plugin in _checked(kind, module, origin)
    )
    if not found:
        raise TypeError(f"it has none of {', '.join(_attributes())}")
    return found


def _attributes() -> Iterator[str]:
    return (kind.attribute for kind in KINDS.values())


def _left_out(what: str, error: Exception) -> None:
    warnings.warn(f"plugin {what} is ignored: {_said(error)}", PluginWarning, stacklevel=2)


def _said(error: Exception) -> str:
    """What went wrong in a plugin, with the line of it where there is one."""
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return f"{type(error).__name__}: {error}" if not isinstance(error, TypeError) else str(error)

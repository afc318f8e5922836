"""Where this machine gets its packages from, as its own apt reads its configuration.

No mirror is written down in iotrial: what is configured here, with its proxies, is used.

Sources: apt-get(8) ``indextargets``, apt-config(8), sources.list(5), apt.conf(5).
"""

from __future__ import annotations

from dataclasses import dataclass

from iotrial.errors import HostError
from iotrial.model.host import Host

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
class Sources:
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


def backports_of(sources: Sources) -> tuple[str, ...]:
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


def sources(host: Host) -> Sources:
    """What ``host`` has configured.

    Raises HostError where it is no Debian, or apt has no source of it.
    """
    suite = suite_of(host.read("/etc/os-release").decode("utf-8", "replace"))
    if not suite:
        raise HostError(
            f"{host.name}: an image is built of Debian's packages, and this is no Debian",
            advice="Build it on Debian 12 or newer, as root, and copy the folder "
            "vmlab/images of its cache here.",
        )
    targets = host.run(["apt-get", "indextargets", "--format", LINES, "Identifier: Packages"])
    lines = lines_of(targets.text, suite)
    if not lines:
        raise HostError(
            f"{host.name}: apt has no source of {suite} main: {targets.complaint}",
            advice="Look at /etc/apt/sources.list and sources.list.d; then: apt-get update",
        )
    return Sources(suite, lines, options_of(host.run(["apt-config", "dump", "Acquire"]).text))

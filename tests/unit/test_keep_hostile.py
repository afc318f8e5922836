"""What is kept may come from somebody else's results: no text of theirs becomes more than a text.

Every hostile text, in every field, in every format: it is refused by name, or the file says what it
says of a harmless one, with that very text in that one place.  The files are read by readers of
their own, written from the manuals and not from the writers.
"""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrial.errors import StudyError, UsageError
from iotrial.keep.entry import KeptSetting, problem, way_problem
from iotrial.keep.native import NativeFile, export, formats
from iotrial.keep.profile import Profile, parse, to_toml

Said = list[tuple[str, ...]]

DISK = KeptSetting("queue.scheduler", "bfq", "sda", (("wwid", "naa.600508b1001c"),))
SERIAL = replace(DISK, ids=(("serial", "S1"),))
MODEL = replace(DISK, ids=(("model", "FAST"), ("vendor", "ACME")))
SYSCTL = KeptSetting("sysctl.vm.swappiness", "10")
MODULE = KeptSetting("module.lpfc.lpfc_hba_queue_depth", "64")
NIC = KeptSetting("net.ring_rx", "64", "eth0", (("address", "52:54:00:00:00:01"),))
MOUNT = KeptSetting("mount.rsize", "65536", "/mnt", (("options", "rw,rsize=1048576,hard"),))
IRQ = KeptSetting("irq.affinity", "5-7", "33", (("of", "nvme0q1"),))
BOOT = KeptSetting("boot.nvme.poll_queues", "2")
GOOD: dict[str, tuple[KeptSetting, ...]] = {
    "boot": (BOOT, KeptSetting("boot.mitigations", "off")),
    "cmdline": (MODULE, KeptSetting("mm.thp", "never"), BOOT),
    "irq": (IRQ,),
    "link": (NIC,),
    "modprobe": (MODULE,),
    "mount": (MOUNT,),
    "multipath": (KeptSetting("multipath.path_selector", "queue-length"),),
    "nmcli": (NIC,),
    "sysctl": (SYSCTL,),
    "tmpfiles": (
        KeptSetting("mm.thp", "never"),
        KeptSetting("cpu.governor", "performance", "cpu0"),
    ),
    "tuned": (SYSCTL, DISK, NIC, MODULE, KeptSetting("mm.thp", "never"), replace(DISK, ids=())),
    "udev": (DISK, SERIAL, MODEL, replace(DISK, ids=())),
}
EVIL = (
    *("\n", "\r", "\r\n", "\0", "\x0b", "\x0c", "\x1b[2J", "\x1e", "\x85", "\u2028", "\u2029"),
    *("\u202e", "\u200b", "\ufeff", "\xa0", "\ud800", "\t", "\x7f", "é", "٣"),
    *("\n[script]\nscript=/tmp/x", "\n[Service]\nExecStart=/tmp/x", "\\\nRUN+=x", "\\", "\\\\"),
    *('"', "'", '", RUN+="/tmp/x', '", PROGRAM="/tmp/x', '"\n', '\\"', "|", "*", "?", "[a-z]", "]"),
    *(
        "$",
        "$$",
        "$(id)",
        "`id`",
        "${f:exec:/tmp/x}",
        "${x}",
        "%",
        "%%",
        "%n",
        "%h",
        "%(x)s",
        "$env{X}",
    ),
    *(
        "{",
        "}",
        "}\ndefaults {",
        "{{ x }}",
        "{% x %}",
        "{device}",
        "#",
        " # x",
        ";",
        "; id",
        "!",
        "& id",
    ),
    *(
        "=",
        " = ",
        ",",
        ",suid,dev",
        ",x-systemd.requires=x",
        " install lpfc /tmp/x",
        " x=y",
        "  ",
        "\t x",
    ),
    *(
        "/../..",
        "/../../etc/passwd",
        "../../etc/cron.d/x",
        "//",
        "/.",
        "-",
        "--",
        "-o x",
        "<",
        ">",
        "|| id",
    ),
    *("\\x0aRUN", "\\n", "\\040", "~", "^", ":", "@", "..", "x" * 300, "x" * 5000),
)
FILE = {"question": "", "source": "", "former": "", "because": ""}


def hostile(good: str) -> list[str]:
    return [text for each in EVIL for text in (each, good + each, each + good) if text != good]


def plain_lines(text: str) -> list[str]:
    """Lines as any of these programs ends them, and as a careless one does."""
    return [line for line in re.split("[\n\r\x0b\x0c\x85\u2028\u2029]", text) if line.strip()]


def lines(text: str) -> list[str]:
    return [line for line in plain_lines(text) if not line.startswith("#")]


def udev(text: str) -> Said:
    """udev(7): KEY OPERATOR "VALUE" …; a quote is taken literally behind a backslash."""
    found: Said = []
    for line in lines(text):
        at, row = 0, []
        token = re.compile(
            r'\s*([A-Z]+(?:\{[^}"]*\})?)(==|!=|=|\+=|-=|:=)"((?:\\"|[^"])*)"\s*(?:,|$)'
        )
        while at < len(line):
            match = token.match(line, at)
            assert match, line
            key, sign, value = match.groups()
            if sign == "==":
                assert not re.search(r"[*?|]|\[(?!.\])", re.sub(r"\[[*?\[]\]", "", value)), line
                value = re.sub(r"\[([*?\[])\]", r"\1", value)
            else:
                assert not re.search(r"[$%]", re.sub(r"\$\$|%%", "", value)), line
                value = value.replace("$$", "$").replace("%%", "%")
            row += [key, sign, value]
            at = match.end()
        found.append(tuple(row))
    return found


def ini(text: str) -> Said:
    """systemd.syntax(7); what is expanded (%) is given back as it will be."""
    found: Said = []
    section = ""
    for line in lines(text):
        assert not line.endswith("\\"), line
        if line.startswith("["):
            section = line
            continue
        key, _, value = line.partition("=")
        assert "%" not in value.replace("%%", ""), line
        found.append((section, key, value.strip().replace("%%", "%")))
    return found


def words(text: str) -> Said:
    said = [tuple(line.split(" ")) for line in lines(text)]
    assert not any(set("\"'\\$`;&|<>") & set("".join(row)) for row in said)
    return said


def shell(text: str) -> Said:
    assert "\0" not in text
    return [tuple(shlex.split(line)) for line in lines(text)]


def tmpfiles(text: str) -> Said:
    """tmpfiles.d(5): the argument is the rest; ``\\`` escapes, ``%`` expands."""
    found: Said = []
    for line in lines(text):
        kind, path, mode, user, group, age, argument = line.split(None, 6)
        for sign in ("\\", "%"):
            assert sign not in argument.replace(sign * 2, ""), line
        assert argument != "-"
        argument = argument.replace("\\\\", "\\").replace("%%", "%")
        found.append((kind, path, mode, user, group, age, argument))
    return found


def sysctl(text: str) -> Said:
    found: Said = []
    for line in lines(text):
        key, _, value = line.partition("=")
        assert key[0] not in "-;#"
        found.append((key.strip(), value.strip()))
    return found


def multipath(text: str) -> Said:
    found: Said = []
    section = ""
    for line in lines(text):
        if match := re.fullmatch(r"(\w+) \{", line):
            section = match[1]
        elif line != "}":
            match = re.fullmatch(r'\t(\w+) "([^"\\!#]*)"', line)
            assert match, line
            found.append((section, *match.groups()))
    return found


def tuned(text: str) -> Said:
    """As tuned reads it: an INI file; ``${…}`` are its variables and functions."""
    read = configparser.RawConfigParser(delimiters=("=",), inline_comment_prefixes=("#",))
    read.optionxform = str  # type: ignore[assignment, method-assign]
    read.read_string(text)
    found: Said = [(section, *pair) for section in read.sections() for pair in read.items(section)]
    assert not any(set("$%*?[") & set("".join(row).replace("_regex", "")) for row in found)
    return found


def grub(text: str) -> Said:
    """As ``sh`` reads an assignment between double quotes: the variable as it was, and words in
    which neither sh nor GRUB's menu sees anything else."""
    (line,) = lines(text)
    match = re.fullmatch(r'(GRUB_CMDLINE_LINUX_DEFAULT)="\$\{\1-\} ([A-Za-z0-9_.,:=+@/ -]+)"', line)
    assert match, line
    return [tuple(match[2].split(" "))]


READERS: dict[str, Callable[[str], Said]] = {
    "boot": grub,
    "cmdline": words,
    "link": ini,
    "modprobe": words,
    "mount": ini,
    "multipath": multipath,
    "nmcli": shell,
    "sysctl": sysctl,
    "tmpfiles": tmpfiles,
    "tuned": tuned,
    "udev": udev,
}


def read(form: str, each: NativeFile) -> Said:
    if form == "irq":
        reader = ini if each.path.endswith(".service") else words_of_script
        return reader(each.text)
    return READERS[form](each.text)


def words_of_script(text: str) -> Said:
    """Only the lines with something of the profile: calls, and patterns of the case."""
    return [
        tuple(shlex.split(line.removesuffix(") echo ban=true ;;")))
        for line in lines(text)
        if line.startswith("moved ") or line.endswith(") echo ban=true ;;")
    ]


def said(form: str, profile: Profile) -> list[tuple[str, Said]] | None:
    """What the files of this format say, by their paths; None where it is refused or not held."""
    try:
        exported = export(profile, [form])
    except UsageError:
        return None
    if exported.left:
        assert exported.files == ()
        return None
    return [(unit_path(each.path), read(form, each)) for each in exported.files]


def with_text(harmless: list[tuple[str, Said]], old: str, text: str) -> list[tuple[str, Said]]:
    """What is to be read where the one text stands in place of the other."""

    def put(leaf: str) -> str:
        return leaf.replace(old, text).strip()

    def path(at: str) -> str:
        return at.replace("//mnt.", f"/{text}.") if old == "/mnt" else put(at)

    return [(path(at), [tuple(map(put, row)) for row in rows]) for at, rows in harmless]


def unit_path(path: str) -> str:
    """A drop-in of a mount, with the mount point that systemd-escape(1) makes of it."""
    if not (match := re.fullmatch(r"(.*/)([^/]+)(\.mount\.d/.*)", path)):
        return path
    plain = match[2].replace("-", "/")
    back = re.sub(
        r"(?:\\x[0-9a-f]{2})+", lambda m: bytes.fromhex(m[0].replace("\\x", "")).decode(), plain
    )
    return f"{match[1]}/{back}{match[3]}"


def options_of(found: list[tuple[str, Said]]) -> set[str]:
    ((_, (row,)),) = found
    return set(row[2].split(","))


def fields(entry: KeptSetting) -> list[tuple[str, str, Callable[[str], KeptSetting]]]:
    """(name, its text, the entry with another one)."""
    ids = dict(entry.ids)
    return [
        ("value", entry.value, lambda text: replace(entry, value=text)),
        ("device", entry.device, lambda text: replace(entry, device=text)),
        ("tunable", entry.tunable, lambda text: replace(entry, tunable=text)),
        *(
            (
                kind,
                old,
                lambda text, kind=kind: replace(entry, ids=tuple({**ids, kind: text}.items())),
            )
            for kind, old in entry.ids
        ),
        *((kind, kind, lambda text: replace(entry, ids=((text, "x"),))) for kind in ids),
    ]


def check(
    form: str, entry: KeptSetting, change: tuple[str, str, str], found: list[tuple[str, Said]]
) -> None:
    """What was found holds the text of ``change`` (field, old text, text) where it belongs."""
    name, old, text = change
    harmless = said(form, Profile("p", (entry,)))
    assert harmless
    if found == harmless:
        return
    if form == "mount" and name in ("options", "tunable"):
        mine = {"rsize=65536", f"{text.removeprefix('mount.')}=65536"}
        former = (text if name == "options" else MOUNT.ids[0][1]).split(",")
        assert options_of(found) - mine <= set(former), text
    elif name == "wwid" and form == "tuned" and not text.startswith("naa."):
        assert found == said(form, Profile("p", (replace(entry, ids=()),))), text
    elif name == "tunable":  # its family is no part of any file
        last = (old.rpartition(".")[2], text.rpartition(".")[2])
        assert found == with_text(harmless, *last), text
    else:
        as_read = text.replace("!", "/") if form == "udev" and name == "device" else text
        assert found == with_text(harmless, old, as_read), (name, text)


def test_every_format_is_asked() -> None:
    assert set(GOOD) == set(formats())


@pytest.mark.parametrize("form", GOOD)
def test_a_hostile_text_is_refused_or_is_that_text_and_nothing_else(form: str) -> None:
    tried = refused = 0
    for entry in GOOD[form]:
        assert said(form, Profile("p", (entry,))), entry
        for name, old, change in fields(entry):
            for text in hostile(old):
                tried += 1
                found = said(form, Profile("p", (change(text),)))
                if found is None:
                    refused += 1
                elif name not in dict(entry.ids) or old != name:  # else a kind that nobody knows
                    check(form, entry, (name, old, text), found)
    assert tried > 500
    assert refused > tried / 3


@pytest.mark.parametrize("form", GOOD)
def test_a_text_for_people_stands_in_comments_alone(form: str) -> None:
    for entry in GOOD[form]:
        harmless = said(form, Profile("p", (entry,)))
        for text in hostile("x"):
            told = replace(entry, former=text, because=text)
            assert said(form, Profile("p", (told,), text, text)) == harmless, text


@given(st.sampled_from(sorted(GOOD)), st.integers(0, 9), st.integers(0, 9), st.text(max_size=40))
def test_any_text_is_refused_or_is_that_text(form: str, which: int, at: int, text: str) -> None:
    entry = GOOD[form][which % len(GOOD[form])]
    name, _, change = fields(entry)[at % len(fields(entry))]
    found = said(form, Profile("p", (change(text),)))
    if text and found is not None and name not in ("tunable", *dict(entry.ids)):
        harmless = said(form, Profile("p", (entry,)))
        assert harmless
        shown = {len(rows) for _, rows in found}
        assert shown == {len(rows) for _, rows in harmless}


def test_a_file_and_results_are_judged_by_the_same_words() -> None:
    """What a profile in TOML is refused for, is refused of results too, and the other way round."""
    for entry in (each for entries in GOOD.values() for each in entries):
        for _, old, change in fields(entry):
            for text in hostile(old)[::3]:
                made = change(text)
                try:
                    parse(to_toml(Profile("p", (made,))), "p.toml")
                except StudyError:
                    continue
                except UnicodeEncodeError:
                    continue
                assert problem(made) is None, made


@pytest.mark.parametrize(
    "way",
    [
        *("-oProxyCommand=id box", "-o ProxyCommand=id box", "-o proxycommand=id box", "-F /x box"),
        *("-I /tmp/x.so box", "-o PKCS11Provider=/x box", "-o KnownHostsCommand=/x box", "-A box"),
        *("-o PermitLocalCommand=yes -o LocalCommand=id box", "-E /etc/x box", "-S none box"),
        *(
            "box -oProxyCommand=id",
            "-- -oProxyCommand=id",
            "'-oProxyCommand=id'",
            "-X box",
            "-K box",
        ),
        *(
            "-o UserKnownHostsFile=/etc/profile.d/x.sh box",
            "-J '-oProxyCommand=id' box",
            "-J '$(id)' x",
        ),
        *(
            "'x;id'",
            "'`id`'",
            "'$(id)'",
            "'a b'",
            "-l '-x' box",
            "-p '1;id' box",
            "-i /tmp/key box",
        ),
    ],
)
def test_a_folder_says_how_a_host_is_called_and_not_what_ssh_does(way: str) -> None:
    assert way_problem(way)


@pytest.mark.parametrize(
    "way",
    ["", "box7", "root@box7", "-p 2222 root@box7", "-4 box", "-J jump box", "root@fe80::1%eth0"],
)
def test_an_ordinary_way_to_a_host_is_taken(way: str) -> None:
    assert way_problem(way) == ""

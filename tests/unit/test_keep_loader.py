"""Boot parameters that are kept: which are, what the files say, and a menu that comes and goes with
its file.  ``tests/integration/test_keep_boot_parameters.py`` asks the real boot loaders."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from test_keep_hostile import hostile

from iotrial.errors import HostError, LockedError, OwedError, RefusedError, UsageError
from iotrial.execute.boot import Boots, bring_back
from iotrial.execute.interruption import Interruption
from iotrial.execute.keep.keeping import apply, confirm, undo
from iotrial.execute.keep.kept import after_boot, find, kept, refuse_pending, verify
from iotrial.execute.keep.loader import fitted
from iotrial.execute.keep.many_hosts import HostProfile
from iotrial.execute.keep.trial_boot import booted_back, booted_for_trial, in_trial_boot
from iotrial.execute.settings.restore import boot_id
from iotrial.hosts.fake import FakeHost
from iotrial.hosts.fake.machine import FakeMachine
from iotrial.hosts.fake.parts.boots import ENTRY, LINE, MENU, BootLoader
from iotrial.keep.entry import KeptSetting, problem
from iotrial.keep.fleet import exports
from iotrial.keep.native import NativeFile, export
from iotrial.keep.native.boot import added
from iotrial.keep.profile import Profile
from iotrial.look.boots import boot_debt, boot_means
from iotrial.model.study import StudyHost

POLLED = KeptSetting("boot.nvme.poll_queues", "2")
THREADED = KeptSetting("boot.threadirqs", "set")
SWAP = KeptSetting("sysctl.vm.swappiness", "7")
PROFILE = Profile("polled", (POLLED, THREADED, SWAP))
WORDS = "nvme.poll_queues=2 threadirqs"
PART = "/etc/default/grub.d/zz-iotrial-polled.cfg"


def with_entries(host: FakeHost) -> FakeHost:
    """Booted by systemd-boot instead of GRUB."""
    line = host.read("/proc/cmdline")
    del host.machine.files[MENU]
    host.machine.put(ENTRY, line, mode=0o644)
    host.machine.put(LINE, line, mode=0o640)
    return host


def part(host: FakeHost) -> BootLoader:
    found = host.machine.parts["boots"]
    assert isinstance(found, BootLoader)
    return found


def keep(host: FakeHost, trial: float = 0) -> tuple[NativeFile, ...]:
    exported = fitted(host, export(PROFILE))
    apply(host, PROFILE, exported.files, trial=trial)
    return exported.files


def seen(host: FakeHost) -> object:
    """Settings, and every file outside the folder of what is kept."""
    files = {p: (f.data, f.mode) for p, f in host.machine.files.items() if "/iotrial/" not in p}
    return host.settings(), files


# -- what is kept ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tunable", "value", "key", "words"),
    [
        ("boot.kernel", "6.1.0", "tunable", "grubby --set-default /boot/vmlinuz-6.1.0"),
        ("boot.nvme.poll_queues", "unset", "value", "nothing to keep"),
        ("boot.memmap", "1G$2G", "value", "boot loaders read differently"),
        ("boot.x", "$(id)", "value", "boot loaders read differently"),
        ("boot.x", "a'b", "value", "boot loaders read differently"),
        ("boot.init", "/bin/sh", "tunable", "says what the host boots"),
        ("boot.rdinit", "/bin/sh", "tunable", "says what the host boots"),
        ("boot.root", "/dev/sdb", "tunable", "says what the host boots"),
        ("boot.systemd.run", "/tmp/x", "tunable", "says what the host boots"),
        ("boot.rd.break", "set", "tunable", "says what the host boots"),
        ("boot.sysctl.kernel.modprobe", "/tmp/x", "tunable", "says what the host boots"),
        ("boot.single", "set", "tunable", "says what the host boots"),
        ("boot.iotrial.boot", "t", "tunable", "says what the host boots"),
        ("boot.a..b", "1", "tunable", "not a name of a parameter"),
    ],
)
def test_what_is_not_kept_is_named_with_why(tunable: str, value: str, key: str, words: str) -> None:
    found = problem(KeptSetting(tunable, value))
    assert found is not None
    assert found[0] == key
    assert words in found[1]
    with pytest.raises(UsageError):
        export(Profile("p", (KeptSetting(tunable, value),)))


@pytest.mark.parametrize(
    "tunable", ["boot.initcall_debug", "boot.rootdelay", "boot.rdx", "boot.s5"]
)
def test_what_only_begins_alike_is_kept(tunable: str) -> None:
    assert problem(KeptSetting(tunable, "1")) is None


def test_grub_gets_a_file_that_adds_words_and_people_get_a_note_where_asked_for() -> None:
    (file,) = export(Profile("polled", (POLLED, THREADED))).files
    assert file.path == PART
    line = 'GRUB_CMDLINE_LINUX_DEFAULT="${GRUB_CMDLINE_LINUX_DEFAULT-} ' + WORDS + '"\n'
    assert file.text.endswith(f"reboot\n{line}")
    assert file.reload == (("update-grub",),)
    assert any("/etc/kernel/cmdline" in note for note in file.notes)
    (note,) = export(Profile("polled", (POLLED, THREADED)), ["cmdline"]).files
    assert note.people
    assert note.text.endswith(f"\n{WORDS}\n")
    assert export(Profile("p", (POLLED,)), ["modprobe"]).left == (POLLED,)


def test_sh_reads_the_words_whatever_the_comments_say(tmp_path: Path) -> None:
    texts = hostile("x")
    for number, text in enumerate(texts):
        entry = KeptSetting("boot.a", "1", former=text, because=text)
        (file,) = export(Profile("p", (entry,), text, text)).files
        (tmp_path / f"{number:05}.cfg").write_bytes(file.text.encode("utf-8", "surrogateescape"))
    script = 'for each in "$1"/*.cfg; do GRUB_CMDLINE_LINUX_DEFAULT=quiet; . "$each"\n'
    script += 'echo "$GRUB_CMDLINE_LINUX_DEFAULT"; done; unset GRUB_CMDLINE_LINUX_DEFAULT; set -u\n'
    script += '. "$each"; echo "$GRUB_CMDLINE_LINUX_DEFAULT"'
    done = subprocess.run(
        ["sh", "-c", script, "-", tmp_path], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == [*["quiet a=1"] * len(texts), " a=1"]
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("former", "text"),
    [
        ("root=/dev/vda ro\n", f"root=/dev/vda ro {WORDS}\n"),
        ("root=/dev/vda ro  ", f"root=/dev/vda ro {WORDS}\n"),
        ("root=/dev/vda -- single\n", f"root=/dev/vda {WORDS} -- single\n"),
        ("# mine\nroot=/dev/vda\n# end\n", f"# mine\nroot=/dev/vda {WORDS}\n# end\n"),
        ("root=/dev/vda\nro\n\n", f"root=/dev/vda\nro {WORDS}\n\n"),
        ("# mine\n", f"# mine\n{WORDS}\n"),
        ("", f"{WORDS}\n"),
    ],
)
def test_words_are_added_where_the_kernel_reads_them(former: str, text: str) -> None:
    (file,) = export(Profile("polled", (POLLED, THREADED))).files
    assert added(file, former).text == text


def test_a_fleet_calls_update_grub() -> None:
    files = export(PROFILE).files
    found = {path: text for path, text, _ in exports("p", {StudyHost("local"): (PROFILE, files)})}
    assert "try update-grub\n" in found["apply.sh"]
    assert "try update-grub\n" in found["undo.sh"]
    assert '- "update-grub"' in found["ansible/roles/iotrial_p/handlers/main.yml"]


# -- on a host -------------------------------------------------------------------------------------

HOSTS: tuple[Callable[[FakeHost], FakeHost], ...] = (lambda host: host, with_entries)


@pytest.mark.parametrize("loader", HOSTS, ids=["grub", "kernel-install"])
def test_words_are_in_force_after_the_next_boot_and_gone_after_undo_and_another(
    loader: Callable[[FakeHost], FakeHost],
) -> None:
    host = loader(FakeHost())
    before, own = seen(host), boot_means(host).command_line
    keep(host)
    assert WORDS not in boot_means(host).command_line
    there, differences = verify(host, "polled")
    assert differences == ()
    assert list(map(str, after_boot(host, there))) == [str(POLLED), str(THREADED)]

    host.reboot()
    host.meddle("/proc/sys/vm/swappiness", b"7")  # as sysctl.d does
    assert boot_means(host).command_line == f"{own} {WORDS}"
    there, differences = verify(host, "polled")
    assert (differences, after_boot(host, there)) == ((), ())

    payment = undo(host, "polled")
    assert payment.owed == []
    assert payment.notes == [
        f"{each} is in force until the next boot" for each in (POLLED, THREADED)
    ]
    assert f"restored file:{PART}" in " ".join(payment.done) or LINE in host.machine.files
    assert seen(host) == before
    assert not any(path.endswith(".menu") for path in host.machine.files)
    host.reboot()
    assert boot_means(host).command_line == own


@pytest.mark.parametrize("loader", HOSTS, ids=["grub", "kernel-install"])
def test_a_menu_that_cannot_be_made_keeps_nothing(
    loader: Callable[[FakeHost], FakeHost],
) -> None:
    host = loader(FakeHost())
    before = seen(host)
    part(host).broken = "no space left"
    with pytest.raises(HostError, match="cannot be made: no space left"):
        keep(host)
    assert seen(host) == before
    assert kept(host) == ()
    assert not any(path.endswith(".menu") for path in host.machine.files)


def test_an_undo_whose_menu_cannot_be_made_is_owed_until_it_can() -> None:
    host = FakeHost()
    before = seen(host)
    keep(host)
    part(host).broken = "no space left"
    for _ in range(2):
        with pytest.raises(OwedError, match=r"menu of GRUB=as before .*: no space left"):
            undo(host, "polled")
        assert WORDS.encode() in host.read(MENU)
        assert PART not in host.machine.files, "the file is gone, and the menu is still to come"
    part(host).broken = ""
    assert undo(host, "polled").owed == []
    assert seen(host) == before


def test_a_host_whose_boot_loader_is_not_known_is_refused_before_anything_is_changed() -> None:
    host = FakeHost()
    del host.machine.files[MENU]
    before, operations = seen(host), host.operations
    with pytest.raises(RefusedError) as caught:
        keep(host)
    assert f'grubby --update-kernel=ALL --args="{WORDS}"' in caught.value.advice
    assert "GRUB: there is no /boot/grub/grub.cfg" in caught.value.message
    with pytest.raises(RefusedError, match="none that iotrial knows how to configure"):
        apply(host, PROFILE, export(PROFILE).files)
    assert (seen(host), host.operations) == (before, operations)


def test_a_file_of_another_boot_loader_is_refused() -> None:
    host = with_entries(FakeHost())
    with pytest.raises(RefusedError, match="systemd-boot boots it"):
        apply(host, PROFILE, export(PROFILE).files)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("root=/dev/fakesys1 ro quiet\n", "only /etc/kernel/cmdline has quiet"),
        ("ro\n", "only the running kernel has root=/dev/fakesys1"),
    ],
)
def test_entries_are_not_made_of_what_the_host_was_not_booted_with(line: str, words: str) -> None:
    host = with_entries(FakeHost())
    host.machine.put(LINE, line.encode(), mode=0o644)
    with pytest.raises(RefusedError, match=words):
        keep(host)


# -- a trial period --------------------------------------------------------------------------------

PLACE = StudyHost("box", "root@box")


@pytest.fixture
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits on the machine made up: the end of a trial is done by hand."""
    monkeypatch.setattr("iotrial.execute.keep.keeping._watch_on", lambda *_, **__: None)


@contextmanager
def trial_of(host: FakeHost, place: StudyHost = PLACE) -> Iterator[list[str]]:
    """Booted for it; within, what was said."""
    said: list[str] = []
    shares = {place: HostProfile(PROFILE, fitted(host, export(PROFILE)).files)}
    ways = (lambda _place: nullcontext(host), shares, 60.0)
    with booted_for_trial(*ways, said=said.append, stop=Interruption()):
        yield said


def test_without_a_boot_no_boot_parameter_is_tried() -> None:
    host = FakeHost()
    before = seen(host)
    with pytest.raises(RefusedError, match="the host has to be booted with it for a trial period"):
        keep(host, trial=60)
    assert seen(host) == before


@pytest.mark.usefixtures("_unwatched")
def test_a_trial_is_a_boot_and_the_boot_loader_is_told_when_it_is_confirmed() -> None:
    host = FakeHost()
    before, menu = seen(host), host.read(MENU)
    with trial_of(host) as said:
        assert said == ["box: booting with boot.nvme.poll_queues=2 boot.threadirqs=set, by kexec"]
        assert all(word in boot_means(host).command_line.split() for word in WORDS.split())
        keep(host, trial=60)
    there = find(host, "polled")
    assert there is not None
    assert there.tried_by_boot
    assert in_trial_boot(host, "polled")
    assert verify(host, "polled")[1] == ()
    assert host.read(MENU) == menu
    assert PART not in host.machine.files
    assert host.read("/proc/sys/vm/swappiness") == b"7\n"

    confirm(host, "polled")
    assert WORDS in host.read(MENU).decode()
    bring_back(lambda _place: nullcontext(host), PLACE, within=1.0)
    host.meddle("/proc/sys/vm/swappiness", b"7")  # systemd-sysctl is no part of the machine made up
    assert verify(host, "polled")[1] == ()
    assert after_boot(host, there) == ()
    undo(host, "polled")
    host.reboot()
    assert seen(host) == before


@pytest.mark.usefixtures("_unwatched")
@pytest.mark.parametrize("other", ["polled", "another"])
def test_a_trial_that_is_refused_does_not_boot_a_host_out_of_one(other: str) -> None:
    """The same profile again, or another one."""
    host = FakeHost()
    with trial_of(host):
        keep(host, trial=60)
    before = seen(host), boot_id(host)
    profile = Profile(other, (POLLED,))
    shares = {PLACE: HostProfile(profile, fitted(host, export(profile)).files)}
    again = booted_for_trial(
        lambda _place: nullcontext(host), shares, 60.0, said=str, stop=Interruption()
    )
    with pytest.raises(RefusedError, match=r"not confirmed|still to be restored"), again:
        pass
    assert (seen(host), boot_id(host)) == before
    assert in_trial_boot(host, "polled")


def test_only_a_trial_that_was_booted_for_boots_the_host_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(
        "iotrial.execute.keep.keeping._watch_on", lambda *_, booted: asked.append(booted)
    )
    host = FakeHost()
    with trial_of(host):
        keep(host, trial=60)
    plain = Profile("plain", (SWAP,))
    apply(FakeHost(), plain, export(plain).files, trial=60)
    assert asked == [True, False]


@pytest.mark.usefixtures("_unwatched")
def test_a_study_does_not_boot_a_host_out_of_a_trial(tmp_path: Path) -> None:
    host = FakeHost()
    with trial_of(host):
        keep(host, trial=60)
    boots = Boots(lambda _place: nullcontext(host), tmp_path)
    with pytest.raises(LockedError, match="polled is in a trial period"):
        boots.begin([PLACE], refuse_pending)
    assert in_trial_boot(host, "polled")


@pytest.mark.usefixtures("_unwatched")
def test_an_undo_of_a_trial_ends_in_the_host_s_own_boot() -> None:
    host = FakeHost()
    before = seen(host)
    with trial_of(host):
        keep(host, trial=60)
    with booted_back(lambda _: nullcontext(host), [PLACE], "polled", said=str) as tried:
        tried.append("box")
        assert undo(host, "polled").notes == [], "what the boot had is not in force much longer"
    assert seen(host) == before


@pytest.mark.usefixtures("_unwatched")
def test_a_menu_that_cannot_be_made_at_the_end_of_a_trial_leaves_the_trial_to_be_undone() -> None:
    host = FakeHost()
    before = seen(host)
    with trial_of(host):
        keep(host, trial=60)
    part(host).broken = "no room is left here"
    with pytest.raises(HostError, match="no room is left here"):
        confirm(host, "polled")
    assert in_trial_boot(host, "polled")
    part(host).broken = ""
    with pytest.raises(RefusedError, match="only partly in force: menu of GRUB"):
        confirm(host, "polled")
    with booted_back(lambda _: nullcontext(host), [PLACE], "polled", said=str) as tried:
        tried.append("box")
        undo(host, "polled")
    assert seen(host) == before


@pytest.mark.usefixtures("_unwatched")
def test_a_trial_that_was_booted_out_of_is_not_confirmed() -> None:
    """Somebody booted the host, and its unit could not undo what was begun."""
    host = FakeHost()
    with trial_of(host):
        keep(host, trial=60)
    host.reboot()
    host.meddle("/proc/sys/vm/swappiness", b"7")
    with pytest.raises(RefusedError, match=r"only partly in force: boot\.nvme\.poll_queues"):
        confirm(host, "polled")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (StudyHost("local"), "it is the machine that iotrial runs on"),
        (StudyHost("box", via="podman:box"), "podman:box ends with a boot"),
    ],
)
def test_what_cannot_be_booted_is_refused_before_anything_is_changed(
    place: StudyHost, words: str
) -> None:
    host = FakeHost()
    before, operations = seen(host), len(host.log)
    with pytest.raises(RefusedError, match=words), trial_of(host, place):
        pass
    assert seen(host) == before
    assert not [each for each in host.log[operations:] if "arm" in each]


def test_a_profile_that_is_kept_already_takes_no_boot() -> None:
    host = FakeHost()
    keep(host)
    with pytest.raises(RefusedError, match="is kept already"), trial_of(host):
        pass
    assert boot_debt(host) == ()


def test_what_goes_wrong_in_the_trial_s_boot_boots_the_host_back() -> None:
    host = FakeHost()
    before = seen(host)

    def tried() -> None:
        with trial_of(host):
            assert boot_debt(host)
            raise RefusedError("the disk is full")

    with pytest.raises(RefusedError, match="full"):
        tried()
    assert seen(host) == before


def test_where_one_host_cannot_the_others_are_booted_back() -> None:
    hosts = {"a": FakeHost(), "b": FakeHost()}
    befores = [seen(host) for host in hosts.values()]
    files = fitted(hosts["a"], export(PROFILE)).files
    shares = {StudyHost(each, f"root@{each}"): HostProfile(PROFILE, files) for each in hosts}
    apply(hosts["b"], PROFILE, files)
    befores[1] = seen(hosts["b"])
    trial = booted_for_trial(
        lambda place: nullcontext(hosts[place.name]), shares, 60, said=str, stop=Interruption()
    )
    with pytest.raises(RefusedError, match="polled is kept already"), trial:
        pass
    assert [seen(host) for host in hosts.values()] == befores


def test_a_boot_that_does_not_come_up_is_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel panics, and the firmware boots the host's own."""
    host = FakeHost()
    before, real = seen(host), BootLoader.remember

    def panicked(self: BootLoader, former: BootLoader, machine: FakeMachine) -> None:
        former.going = False
        real(self, former, machine)

    monkeypatch.setattr(BootLoader, "remember", panicked)
    with (
        pytest.raises(HostError, match=r"did not come up with .*, but with its own boot"),
        trial_of(host),
    ):
        pass
    assert seen(host) == before


def test_a_host_that_was_booted_without_the_words_is_named() -> None:
    host = FakeHost()
    keep(host)
    words = host.read(MENU)
    host.machine.put(MENU, b"root=/dev/fakesys1 ro\n")
    (found,) = verify(host, "polled")[1]
    assert (found.what, found.wanted) == ("menu of GRUB", WORDS)
    host.reboot()  # by another entry of the menu
    host.meddle("/proc/sys/vm/swappiness", b"7")
    host.machine.put(MENU, words)
    differences = verify(host, "polled")[1]
    assert [(each.what, each.wanted, each.found) for each in differences] == [
        ("boot.nvme.poll_queues", "2", "0"),
        ("boot.threadirqs", "set", "unset"),
    ]
    assert "has booted since" in differences[0].since
    there = find(host, "polled")
    assert there is not None
    assert after_boot(host, there) == ()


@pytest.mark.parametrize("there", [(), ("",), (".iotrial-former",), ("", ".iotrial-former")])
def test_the_made_up_host_answers_as_the_script_of_the_loader_does(
    there: tuple[str, ...], tmp_path: Path
) -> None:
    """Of a menu without the words, for which no program is executed."""
    host = FakeHost()
    keep(host)
    (owed,) = (
        v for d in kept(host)[0].session.settings for v in d.values if "menu" in str(v.setting)
    )
    argv = list(owed.acts[0].argv)
    menu, file = tmp_path / "grub.cfg", tmp_path / "x.cfg"
    menu.write_text("\tlinux /vmlinuz root=/dev/fakesys1 ro nvme.poll_queues=2 threadirqs=1\n")
    host.machine.put(MENU, menu.read_bytes())
    text = host.read(PART)
    del host.machine.files[PART]
    argv[2] = argv[2].replace("/boot/grub/grub.cfg", str(menu)).replace("/run/systemd", "/nowhere")
    argv[2] = argv[2].replace("update-grub", "/nowhere/update-grub")
    argv[7:9] = [str(file), f"{file}.iotrial-former"]
    for end in there:
        Path(f"{file}{end}").write_bytes(text)
        host.machine.put(f"{file}{end}", text)
    real = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    said = host.run(argv)
    assert (said.exit, said.stderr.decode()) == (real.returncode, real.stderr)
    assert said.exit == bool(there)

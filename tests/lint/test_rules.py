"""Every rule: what it finds, and what it lets pass."""

from __future__ import annotations

import pytest
from rule_cases import CASES, Case

from iotrial_lint.judge import judged
from iotrial_lint.parsers import parsed
from iotrial_lint.rule import LintContext, LintMessage, Rule
from iotrial_lint.rules import rules

MEMORY = 16 * 2**30


def found(case: Case, text: str) -> list[LintMessage]:
    scene = LintContext(kernel=case.kernel, memory=MEMORY, memory_mounts=("/mnt/in-memory",))
    remarks = judged([parsed(case.kind, text.encode(), "file")], scene)
    return [remark for remark in remarks if remark.rule.name == case.rule]


def name(case: Case) -> str:
    return f"{case.rule}-{case.kind}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_rule_speaks_in_the_lines_where_it_should(case: Case) -> None:
    remarks = found(case, case.bad)
    assert sorted({remark.line for remark in remarks}) == list(case.lines)
    assert all(remark.what and remark.file == "file" for remark in remarks)
    first = min(remarks, key=lambda remark: remark.line)
    assert case.fix in first.fix


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_rule_is_silent_where_nothing_is_wrong(case: Case) -> None:
    assert found(case, case.good) == []


def test_every_rule_of_files_has_a_case() -> None:
    of_files = {name for name, rule in rules().items() if rule.kinds}
    assert {case.rule for case in CASES} | {"read-ahead-direct"} == of_files


def test_read_ahead_is_moot_beside_jobs_that_are_all_direct() -> None:
    rule = parsed("udev", b'KERNEL=="sda", ATTR{queue/read_ahead_kb}="4096"\n', "x.rules")
    direct = parsed("fio", b"[a]\ndirect=1\n", "a.fio")
    buffered = parsed("fio", b"[a]\nfsync=1\n", "b.fio")
    named = [remark.rule.name for remark in judged([rule], LintContext(sheets=(rule, direct)))]
    assert named == ["read-ahead-direct"]
    assert judged([rule], LintContext(sheets=(rule, direct, buffered))) == ()
    assert judged([rule], LintContext(sheets=(rule,))) == ()


def test_a_data_mode_that_the_command_line_gives_the_root_too_is_fine() -> None:
    table = parsed("fstab", b"UUID=1 / ext4 data=writeback 0 1\n", "fstab")
    same = parsed("cmdline", b"root=UUID=1 ro rootflags=noatime,data=writeback\n", "cmdline")
    other = parsed("cmdline", b"root=UUID=1 ro rootflags=data=journal\n", "cmdline")
    assert judged([table], LintContext(sheets=(table, same))) == ()
    (remark,) = judged([table], LintContext(sheets=(table, other)))
    assert (remark.rule.name, remark.line) == ("mount-root-data", 1)


@pytest.mark.parametrize(
    ("line", "kernel", "words"),
    [
        (b"s:/a /a nfs vers=4.2,proto=udp\n", (4, 4), "NFSv4 has no UDP"),
        (b"s:/a /a nfs4 udp\n", (6, 1), "NFSv4 has no UDP"),
        (b"s:/a /a nfs udp,nfsvers=3\n", (5, 6), "from 5.6 on"),
        (b"s:/a /a nfs udp,nfsvers=3\n", (5, 4), "data go wrong"),
    ],
)
def test_what_becomes_of_nfs_over_udp_depends_on_version_and_kernel(
    line: bytes, kernel: tuple[int, ...], words: str
) -> None:
    (remark,) = judged([parsed("fstab", line, "fstab")], LintContext(kernel=kernel))
    assert words in remark.what


def test_exceptions_in_another_file_lift_a_blacklist_and_those_of_another_kind_do_not() -> None:
    main = parsed("multipath", b'blacklist {\n wwid "*"\n}\n', "multipath.conf")
    wwid = parsed("multipath", b"blacklist_exceptions {\n wwid 3600\n}\n", "conf.d/a.conf")
    node = parsed("multipath", b"blacklist_exceptions {\n devnode sda\n}\n", "conf.d/b.conf")
    (told,) = judged([main], LintContext(sheets=(main, wwid)))
    assert (told.rule.name, told.severity) == ("multipath-only-listed", "note")
    (told,) = judged([main], LintContext(sheets=(main, node)))
    assert told.rule.name == "multipath-blacklists-all"
    assert "exceptions by devnode lift no blacklist by wwid" in told.what


@pytest.mark.parametrize("rule", rules().values(), ids=lambda rule: rule.name)
def test_a_rule_says_why_and_on_whose_word(rule: Rule) -> None:
    for words in (rule.title, rule.reason, rule.source, rule.fix):
        assert len(words) > 7


def test_a_kernel_that_still_has_it_is_not_told_of_its_end() -> None:
    sheet = parsed("sysctl", b"net.ipv4.tcp_tw_recycle = 1\n", "file")
    assert judged([sheet], LintContext(kernel=(4, 4))) == ()
    assert len(judged([sheet], LintContext(kernel=(4, 12)))) == 1


def test_what_a_host_has_is_no_unknown_name() -> None:
    sheet = parsed("sysctl", b"vm.of_our_own_kernel = 1\n", "file")
    assert judged([sheet], LintContext(there={"vm.of_our_own_kernel": "1"})) == ()
    assert len(judged([sheet], LintContext())) == 1


def test_a_release_of_multipath_that_reads_a_keyword_is_not_told_of_its_end() -> None:
    sheet = parsed("multipath", b'defaults {\n getuid_callout "/x"\n}\n', "file")
    assert judged([sheet], LintContext(multipath=(0, 8, 5))) == ()
    assert len(judged([sheet], LintContext(multipath=(0, 9, 4)))) == 1


def test_modules_that_were_asked_are_believed() -> None:
    sheet = parsed("modprobe", b"options lpfc lpfc_lun_queue_depth=9 lpfc_new=1\n", "file")
    assert [remark.key for remark in judged([sheet], LintContext())] == ["lpfc.lpfc_new"]
    asked = {"lpfc": frozenset({"lpfc_lun_queue_depth", "lpfc_new"})}
    assert judged([sheet], LintContext(modules=asked)) == ()


@pytest.mark.parametrize(
    ("file", "value", "said"),
    [
        ("max_sectors_kb", "2", "2 is below 4"),
        ("rotational", "7", "'7' is not one of 0, 1"),
        ("iosched/read_expire", "-3", "-3 is below 0"),
        ("nr_requests", "20000", "20000 is above 10240"),
        ("max_sectors_kb", "0", ""),
        ("wbt_lat_usec", "-1", ""),
        ("rotational", "1", ""),
    ],
)
def test_a_queue_takes_what_plan_takes(file: str, value: str, said: str) -> None:
    rule = parsed("udev", f'KERNEL=="sda", ATTR{{queue/{file}}}="{value}"\n'.encode(), "x.rules")
    told = [
        each for each in judged([rule], LintContext()) if each.rule.name == "queue-out-of-range"
    ]
    assert [each.what for each in told] == [said] * bool(said)

"""What iotrial itself writes to make settings durable is nothing that lint complains of."""

from __future__ import annotations

from iotrial.keep.entry import KeptSetting
from iotrial.keep.native import export, formats
from iotrial.keep.profile import Profile
from iotrial_lint.judge import judged
from iotrial_lint.parsers import kind_of, parsed
from iotrial_lint.rule import LintContext

WWID = (("wwid", "naa.6000000000000001"),)
MAP = (("dm_uuid", "mpath-36000000000000001"),)
PROFILE = Profile(
    "winner",
    (
        KeptSetting("sysctl.vm.dirty_background_ratio", "5"),
        KeptSetting("sysctl.net.ipv4.tcp_rmem", "4096 131072 16777216"),
        KeptSetting("sysctl.net.core.rmem_max", "16777216"),
        KeptSetting("queue.nr_requests", "256", "sda", WWID),
        KeptSetting("queue.scheduler", "mq-deadline", "sda", WWID),
        KeptSetting("queue.read_ahead_kb", "1024", "dm-0", MAP),
        KeptSetting("module.lpfc.lpfc_lun_queue_depth", "64"),
        KeptSetting("nfs.tcp_slot_table_entries", "64"),
        KeptSetting("multipath.path_selector", "queue-length 0"),
        KeptSetting("multipath.polling_interval", "5"),
    ),
    "?",
)


def test_no_exported_file_has_an_error_or_a_warning() -> None:
    files = [file for name in formats() for file in export(PROFILE, (name,)).files]
    known = [(kind, file) for file in files if (kind := kind_of(file.path))]
    assert {kind for kind, _ in known} >= {"sysctl", "udev", "modprobe", "multipath", "tuned"}
    for kind, file in known:
        sheet = parsed(kind, file.text.encode(), file.path)
        assert sheet.entries, file.path
        remarks = judged([sheet], LintContext(kernel=(6, 1)))
        assert [(each.place, each.what) for each in remarks if each.severity != "note"] == []

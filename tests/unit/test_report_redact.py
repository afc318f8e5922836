"""A report that is passed on: nothing in it says whose machines they were, in any shape."""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import factories
from iotrial.cli.main import status
from iotrial.errors import UsageError
from iotrial.report.redact import Redaction
from iotrial.store import open_results

pytestmark = pytest.mark.charts

RECORDED = Path(__file__).parents[1] / "data/results-0.1.0/hosts.tar.xz"
SPOKEN = {
    "box1": "stor-alpha7", "box2": "stor-beta8", "FAKE0000": "S3Z9NB0K123456X",
    "FAKE0001": "S3Z9NB0K999999Y", "naa.600fa4e000000000": "naa.5000c500a1b2c3d4",
    "naa.600fa4e000000001": "naa.5000c500a1b2c3d5",
}  # fmt: skip
"""What the recording has, and what stands there of a real rack."""
MACHINE_IDS = ("0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210")
MACS = ("3c:ec:ef:12:34:56", "3c:ec:ef:ab:cd:ef")
OTHERS = (
    "corp.example.com", "10.20.30.41", "fd00:aa:bb::41", "iqn.2003-01.com.example:lun7",
    "6f9619ff-8b86-d011-b42d-00c04fc964ff", "filer9.corp.example.com", "0x5000c500a1b2c3d4",
    "PHLJ9999001122",
)  # fmt: skip
KINDS = ("html", "md", "json", "csv", "findings", "parquet", "xlsx", "junit", "svg", "png")


def real(folder: Path) -> Path:
    """The recording as if it were of a rack: names, serial numbers and addresses in all files."""
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and not path.name.endswith((".zst", ".gz")):
            text = path.read_bytes()
            for old, new in SPOKEN.items():
                text = text.replace(old.encode(), new.encode())
            text = re.sub(rb"box\[1-2\]", b"stor-alpha7,stor-beta8", text)
            path.write_bytes(text)
        if path.name.removesuffix(".json") in SPOKEN:
            path.rename(path.with_name(path.name.replace(path.stem, SPOKEN[path.stem])))
    for at, path in enumerate(sorted((folder / "results/hosts").iterdir())):
        facts = json.loads(path.read_text())
        facts["machine_id"] = MACHINE_IDS[at]
        facts["kernel_parameters"] = (
            f"root=UUID={OTHERS[4]} ip={OTHERS[1]} hostname={facts['name']}.{OTHERS[0]}"
        )
        facts["interfaces"] = {"ens1": {"address": MACS[at], "speed": "25000", "v6": OTHERS[2]}}
        facts["mounts"] += [f"nfs4 from {OTHERS[5]}:/export on /home"]
        facts["devices"]["fake0"]["links"] = [
            f"/dev/disk/by-id/nvme-INTEL_{OTHERS[7]}", f"/dev/disk/by-id/wwn-{OTHERS[6]}",
            f"ip-{OTHERS[1]}:3260-iscsi-{OTHERS[3]}-lun-0",
        ]  # fmt: skip
        path.write_text(json.dumps(facts))
    return folder / "results"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real(tmp_path_factory.mktemp("rack"))


def secrets(folder: Path) -> list[str]:
    boots = [str(facts["boot_id"]) for facts in open_results(folder).facts.values()]
    return [*SPOKEN.values(), "5000c500a1b2c3d4", *MACHINE_IDS, *MACS, *OTHERS, *boots]


def parts(kind: str, path: Path) -> Iterator[bytes]:
    """All that is in a file, also what is compressed in it; names of files count."""
    for each in sorted(path.iterdir()) if path.is_dir() else [path]:
        content = each.read_bytes()
        yield each.name.encode() + content
        if kind == "xlsx":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                yield from (name.encode() + archive.read(name) for name in archive.namelist())
        if kind == "parquet":
            table = pq.read_table(io.BytesIO(content))
            yield json.dumps(table.to_pydict(), default=str).encode()
            yield repr(table.schema.metadata).encode()


def report(folder: Path, kind: str, out: Path, *more: str) -> bytes:
    assert status(["report", str(folder), "--as", kind, "--out", str(out), *more]) == 0
    return b"\0".join(parts(kind, out)).lower()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_rack_is_in_any_shape(folder: Path, tmp_path: Path, kind: str) -> None:
    said = report(folder, kind, tmp_path / "out", "--redact")
    assert said
    for secret in secrets(folder):
        assert secret.lower().encode() not in said, secret


def test_without_it_every_one_of_them_is_told(folder: Path, tmp_path: Path) -> None:
    said = report(folder, "json", tmp_path / "out")
    for secret in secrets(folder):
        assert secret.lower().encode() in said, secret


def document(folder: Path, out: Path, *more: str) -> dict[str, Any]:
    report(folder, "json", out, *more)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_one_thing_has_one_placeholder_and_numbers_are_as_they_were(
    folder: Path, tmp_path: Path
) -> None:
    told = document(folder, tmp_path / "a.json")
    hidden = document(folder, tmp_path / "b.json", "--redact")
    for key in ("findings", "means", "shares", "trials", "recommendation"):
        assert hidden[key] == told[key]
    assert [len(each["strains"]) for each in hidden["borne"]] == [
        len(each["strains"]) for each in told["borne"]
    ]
    assert set(hidden["hosts"]) == {"host-1", "host-2"} == {
        *(each["settings"][0][0].partition(":")[0] for each in hidden["measurements"]), "host-2",
    }  # fmt: skip
    one, two = hidden["hosts"].values()
    assert one["machine_id"] != two["machine_id"]
    assert one["interfaces"]["ens1"]["address"] == "mac-1"
    assert two["interfaces"]["ens1"]["address"] == "mac-2"
    serial = one["devices"]["fake0"]["ids"]["serial"]
    assert serial == one["targets"]["arrays#1"]["identity"]["ids"]["serial"]
    assert serial != one["devices"]["fake1"]["ids"]["serial"]
    assert one["cpu_model"] == "Pretended CPU"
    assert "ssh = " in hidden["study"]


def test_lists_of_hosts_and_names_within_words_are_found() -> None:
    facts = {f"node{n:02}": {"name": f"node{n:02}", "serial": "S3Z9NB0K"} for n in range(1, 13)}
    hide = Redaction(factories.dataclasses.replace(factories.results(1), facts=facts), ["desk.lan"])
    assert hide.text("node[01-12] and NODE07, node03-data") == (
        "host-[01-12] and host-07, host-03-data"
    )
    assert hide.text("ata-DISK_S3Z9NB0K-part1") == "ata-DISK_id-1-part1"
    assert hide.text("on desk.lan") == "on host-13"
    for kept in ("0000:3b:00.0", "09:30:00", "3:0:0:0", "6.18.44", "fio-3.39", "local", "loop117"):
        assert hide.text(kept) == kept
    assert hide.left(b"of node07") == ("node07",)
    assert hide.left(b"of host-07") == ()


def test_what_would_be_left_is_not_written(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Redaction, "results", lambda self: self._results)
    out = tmp_path / "out.html"
    assert status(["report", str(folder), "--redact", "--out", str(out)]) == 2
    assert "nothing is written" in capsys.readouterr().err
    assert not out.exists()


def test_a_table_of_trials_stays_one(folder: Path, tmp_path: Path) -> None:
    report(folder, "csv", tmp_path / "t.csv", "--redact")
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert {row["state"] for row in rows} == {"valid"}
    assert {row["hosts"] for row in rows} == {"1", "2"}


@pytest.mark.parametrize("name", ["read", "valid", "fio"])
def test_a_host_that_is_called_as_a_part_of_results_is_refused(name: str) -> None:
    """Else the metric ``read.iops`` would become ``host-1``."""
    results = replace(factories.results(), facts={name: {"name": name}})
    with pytest.raises(UsageError, match=f"the host name {name} is also a word"):
        Redaction(results)

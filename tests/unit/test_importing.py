"""Old results become data: the five studies' own numbers, and what cannot be."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import re
import shutil
from itertools import product
from pathlib import Path

import pytest

from iotrial.cli.main import status

DATA = Path(__file__).parents[2] / "docs" / "five-studies" / "data"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    capsys.readouterr()
    assert status([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def findings(answer: dict, **wanted: object) -> list[dict]:
    return [f for f in answer["findings"] if all(f[k] == v for k, v in wanted.items())]


def one(answer: dict, **wanted: object) -> dict:
    (found,) = findings(answer, **wanted)
    return found


def percent(ratio: float) -> float:
    return (ratio - 1) * 100


# -- the five studies --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def redhawk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its tables are one session for each storage, depth and kernel."""
    folder = tmp_path_factory.mktemp("redhawk")
    (folder / "m.toml").write_text('session = ["storage", "queue_depth", "os_tuned"]\n')
    options = "--map", str(folder / "m.toml"), "--out", str(folder / "results"), "--quiet"
    assert status(["import", str(DATA / "redhawk.csv"), *options]) == 0
    return folder / "results"


@pytest.mark.parametrize(
    ("factor", "where", "effect"),
    [
        ("queue_depth", "storage=emc-lvm-8", -0.312),
        ("queue_depth", "storage=emc-lvm-12", 0.144),
        ("os_tuned", "storage=emc-lvm-12", 0.236),
    ],
)
def test_what_was_tuned_in_2007_is_described_as_one_session_against_one(
    redhawk: Path, factor: str, where: str, effect: float, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(capsys, "compare", str(redhawk), "--factor", factor, "--where", where)
    found = one(answer, workload="all")
    assert found["n"] == 136
    assert percent(found["ratio"]) == pytest.approx(effect, abs=0.01)
    assert (found["low"], found["verdict"]) == (None, "cannot-tell")
    assert "No claim" in answer["recommendation"]


def test_schedulers_on_the_volumes_are_held_against_each_other_over_sessions(
    redhawk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(
        capsys, "compare", str(redhawk), "--factor", "scheduler", "--where", "storage=emc-lvm-12"
    )
    found = one(answer, workload="all", level="deadline")
    assert (found["n"], found["verdict"]) == (3, "cannot-tell")
    assert found["low"] < found["ratio"] < found["high"]
    assert "anticipatory worse" not in answer["recommendation"], "a workload says otherwise"
    assert "random_read worse −29.2 %" in answer["recommendation"]


@pytest.mark.parametrize(
    ("storage", "loss", "verdict"),
    [("emc-lvm-8", -27.50, "cannot-tell"), ("emc-lvm-12", -29.19, "worse")],
)
def test_the_anticipatory_scheduler_loses_random_reads(
    redhawk: Path, storage: str, loss: float, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two sessions with 8 volumes, and three with 12."""
    where = ("--where", f"storage={storage}")
    answer = said(capsys, "compare", str(redhawk), "--factor", "scheduler", *where)
    found = one(answer, workload="random_read", level="anticipatory")
    assert percent(found["ratio"]) == pytest.approx(loss, abs=0.01)
    assert found["verdict"] == verdict


def test_layout_matters_more_than_the_scheduler(
    redhawk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(capsys, "compare", str(redhawk), "--factor", "storage")
    found = one(answer, workload="random_write", level="emc-lvm-12")
    assert percent(found["ratio"]) == pytest.approx(27.24, abs=0.01)
    assert (found["low"], found["verdict"]) == (None, "cannot-tell"), "each layout has own sessions"
    # The layout of 8 does not say whether its system was tuned: averaged over, not guessed.
    assert found["n"] == 56


def test_copies_count_once_and_the_pair_that_differs_is_named(
    redhawk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(capsys, "compare", str(redhawk))
    doubts = {doubt["check"]: doubt["what"] for doubt in answer["doubts"]}
    assert doubts["copies"].startswith("443 runs")
    assert doubts["maybe-copies"].startswith("20 runs")
    assert "redhawk.csv:665" in doubts["conflict"]
    assert "random reads are as fast as sequential ones" in doubts["cached"]
    assert answer["trials"]["valid"] == 1512 - 443


JOBS = "[global]\nnumjobs=20\niodepth={}\n[seq-read]\nrw=read\n"


def test_a_flash_array_scales_as_its_table_says(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "fewer.fio").write_text(JOBS.format(40))
    answer = said(capsys, "import", str(DATA / "violin.csv"), "fewer.fio", "--out", "r")
    assert [each["runs"] for each in answer["files"]] == [25, 0]
    found = said(capsys, "compare", "r", "--factor", "arrays")
    together = {f["level"]: f["efficiency"] for f in findings(found, workload="all")}
    assert together == pytest.approx({"2": 0.9544, "3": 0.9935, "4": 0.9655}, abs=1e-4)
    alone = [f["efficiency"] for f in findings(found, metric="total.iops", level="4")]
    assert (min(alone), max(alone)) == pytest.approx((0.8563, 1.0971), abs=1e-4)


def test_numbers_that_cannot_be_are_doubted(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "fewer.fio").write_text(JOBS.format(40))
    answer = said(capsys, "import", str(DATA / "violin.csv"), "fewer.fio", "--out", "r")
    lines = {m["trial"]: int(m["source"].partition(":")[2]) for m in answer["measurements"]}
    doubted: dict[str, list[int]] = {}
    for doubt in answer["doubts"]:
        if doubt["trial"]:
            doubted.setdefault(doubt["check"], []).append(lines[doubt["trial"]] - 1)
    assert doubted == {"rates": [2, 4, 15, 17, 18, 24], "in-flight": [20], "mix": [23]}


def test_without_the_job_file_the_latency_that_is_out_of_line_is_still_doubted(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(capsys, "import", str(DATA / "violin.csv"), "--out", "r")
    (doubt,) = [d for d in answer["doubts"] if d["check"] == "in-flight"]
    assert "4,833" in doubt["what"]


RECORDED = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("job", [(565, 8, 64), (3921, 980, 4), (31, 7, 4), (905, 7, 128)])
def test_what_old_fio_rounds_is_no_doubt(
    here: Path, capsys: pytest.CaptureFixture[str], job: tuple[int, int, int]
) -> None:
    """fio 1.x prints whole KiB/s and leaves out what is beyond whole IOPS."""
    bandwidth, iops, block = job
    for name, printed in (("right", bandwidth), ("wrong", 2 * bandwidth)):
        (here / name).write_text(
            f"a: (g=0): rw=randread, bs={block}K-{block}K/{block}K-{block}K, ioengine=sync, "
            "iodepth=1\nfio 1.59\nStarting 1 process\n\n"
            "a: (groupid=0, jobs=1): err= 0: pid=2101\n"
            f"  read : io={printed * 60}KB, bw={printed}KB/s, iops={iops} , runt= 60000msec\n"
            f"    clat (usec): min=9 , max=990000 , avg={900000 / iops:.2f}, stdev=33.10\n"
        )
        answer = said(capsys, "import", name, "--out", f"r-{name}")
        checks = {doubt["check"] for doubt in answer["doubts"]}
        assert ("rates" in checks) == (name == "wrong")
        assert "inconsistent" not in checks, answer["doubts"]


@pytest.mark.parametrize(
    "name",
    ["ior/3.3.0.txt", "ior/4.0.0.txt", "ior/4.0.0.json", "ior/3.2.1.txt", "elbencho/2.0-9.csv",
     "elbencho/3.0-37.json", "elbencho/3.0-37.txt"],
)  # fmt: skip
def test_what_a_tool_measures_at_different_times_is_no_doubt(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """IOR's IOPS leave out open and close; elbencho writes, and then reads."""
    answer = said(capsys, "import", str(RECORDED / name), "--out", "r")
    assert not {"rates", "in-flight"} & {doubt["check"] for doubt in answer["doubts"]}


def test_sections_side_by_side_have_a_depth_each(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(capsys, "import", str(RECORDED / "fio/stonewall/fio.json"), "--out", "r")
    assert "in-flight" not in {doubt["check"] for doubt in answer["doubts"]}


def test_one_run_each_gives_ratios_and_no_claim(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "import", str(DATA / "cluster-md-fio.csv"), "--out", "r")
    answer = said(capsys, "compare", "r")
    ratios = {
        workload: one(answer, workload=workload, metric=metric)["ratio"]
        for workload, metric in (
            ("read", "read.iops"),
            ("write", "write.iops"),
            ("randread", "read.iops"),
            ("randwrite", "write.iops"),
        )
    }
    wanted = {"read": 0.98, "write": 1.00, "randread": 1.00, "randwrite": 1.01}
    assert ratios == pytest.approx(wanted, abs=0.005)
    alone = [f for f in answer["findings"] if f["workload"] != "all"]
    assert {f["verdict"] for f in alone} == {"cannot-tell"}
    assert {f["low"] for f in alone} == {None}
    assert "No claim: one session gives no estimate" in answer["recommendation"]


def test_what_sits_at_the_ceiling_of_the_link_cannot_show_a_difference(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "map.toml").write_text('[limits]\nlink = "0.95Gbit/s"\n')
    answer = said(
        capsys, "import", str(DATA / "cluster-md-fio.csv"), "--map", "map.toml", "--out", "r"
    )
    whole = [d["what"] for d in answer["doubts"] if d["check"] == "link"]
    assert whole == [
        "read: every read.bw sits at the ceiling of the link",
        "randread: every read.bw sits at the ceiling of the link",
    ]


def test_columns_that_are_no_factor_are_named_with_how_to_make_them_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"read,{k % 2},2007-03-0{k + 1},note {k},{100 + k}" for k in range(8)]
    (here / "t[1].csv").write_text("op,direct,when done,said,bw_mb_s\n" + "\n".join(rows) + "\n")
    assert status(["import", "t[1].csv", "--out", "r"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "t[1].csv: ignored: when done, said" in told
    assert '"when done" = "factor" below [columns] of a --map file' in told
    answer = said(capsys, "import", "t[1].csv", "--out", "s")
    assert list(answer["factors"]) == ["direct"]
    assert answer["files"][0]["columns"]["when done"] == "note"


@pytest.mark.parametrize(
    ("primary", "key", "words"),
    [
        ('"raed.iops"', "map.toml: primary: ", ("no run has the metric", "'read.iops'")),
        ('{ randraed = "read.iops" }', "map.toml: primary.randraed: ", ("workload", "'randread'")),
        ('{ read = "write.iops" }', "map.toml: primary.read: ",
         ("no run of read has", "Known: read.bw, read.iops")),
    ],
)  # fmt: skip
def test_a_primary_metric_that_no_run_has_is_an_error_with_the_nearest_name(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    primary: str,
    key: str,
    words: tuple[str, ...],
) -> None:
    (here / "map.toml").write_text(f"primary = {primary}\n")
    data = str(DATA / "cluster-md-fio.csv")
    assert status(["import", data, "--map", "map.toml", "--out", "r"]) == 2
    told = capsys.readouterr().err
    assert key in told
    assert all(word in told for word in words)
    assert not (here / "r").exists()


def test_a_primary_metric_of_some_workloads_answers_for_them(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "map.toml").write_text('primary = "read.iops"\n')
    said(capsys, "import", str(DATA / "cluster-md-fio.csv"), "--map", "map.toml", "--out", "r")
    answer = said(capsys, "compare", "r")
    assert one(answer, workload="randread", metric="read.iops")["primary"]


def test_a_primary_metric_mistyped_in_the_study_of_the_folder_is_an_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "import", str(DATA / "cluster-md-fio.csv"), "--out", "r")
    study = here / "r" / "study.toml"
    study.write_text(study.read_text().replace("\n[decide]", '\n[decide]\nprimary = "raed.iops"'))
    assert status(["compare", "r"]) == 2
    told = capsys.readouterr().err
    assert "r/study.toml: decide.primary: no run has the metric 'raed.iops'" in told
    assert "Did you mean 'read.iops'?" in told


def test_labels_said_twice_differently_are_an_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second of them must not win in silence, nor over the map."""
    data, labels = str(DATA / "bonnie.csv"), "scheduler=cfq,deadline,anticipatory,noop"
    other = "scheduler=noop,deadline,anticipatory,cfq"
    assert status(["import", data, "--label", labels, "--label", other, "--out", "r"]) == 2
    told = capsys.readouterr().err
    assert "scheduler: labels said twice, and differently: cfq,deadline" in told
    (here / "map.toml").write_text('[labels]\nscheduler = "cfq"\n')
    assert status(["import", data, "--map", "map.toml", "--label", labels, "--out", "r"]) == 2
    bases = ("--baseline", "scheduler=cfq", "--baseline", "scheduler=noop")
    assert status(["import", data, "--label", labels, *bases, "--out", "r"]) == 2
    assert not (here / "r").exists()


def test_labels_said_twice_alike_are_a_doubt(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ("--label", "scheduler=cfq,deadline,anticipatory,noop")
    answer = said(capsys, "import", str(DATA / "bonnie.csv"), *labels, *labels, "--out", "r")
    assert [d["check"] for d in answer["doubts"] if not d["trial"]] == ["said-twice"]
    assert answer["factors"] == {"scheduler": ["cfq", "deadline", "anticipatory", "noop"]}


@pytest.mark.parametrize("given", [("r",), (".",), ("r/plan.jsonl", "r/study.toml")])
def test_results_of_iotrial_s_own_are_not_imported_but_compared(
    here: Path, capsys: pytest.CaptureFixture[str], given: tuple[str, ...]
) -> None:
    said(capsys, "import", str(DATA / "cluster-md-fio.csv"), "--out", "r")
    assert status(["import", *given, "--out", "again"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "/r is a results folder of iotrial" in told
    assert "iotrial compare, or iotrial report" in told
    said(capsys, "import", "r/originals", "--out", "again")  # these are somebody's results


def test_a_folder_is_not_compared_with_itself(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "import", str(DATA / "cluster-md-fio.csv"), "--out", "r")
    (here / "link").symlink_to("r")
    for other in ("r", "./r/", "link"):
        assert status(["compare", "r", other]) == 2
        assert "are the same folder" in capsys.readouterr().err


def test_a_choice_of_trials_that_none_fits_is_an_error_that_names_the_contradiction(
    redhawk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ("--where", "os_tuned=true", "--where", "os_tuned=false")
    assert status(["compare", str(redhawk), *both]) == 2
    told = capsys.readouterr().err
    assert "os_tuned=true and os_tuned=false contradict each other" in told
    none = ("--where", "storage=emc-lvm-8", "--where", "os_tuned=true")
    assert status(["compare", str(redhawk), *none]) == 2
    told = capsys.readouterr().err
    assert "has storage=emc-lvm-8 and os_tuned=true" in told
    assert "With storage=emc-lvm-8 the folder has: os_tuned=unknown." in told
    assert status(["compare", str(redhawk), *none[:2], *none[:2], "-q"]) == 0


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_report_of_runs_that_nobody_planned_speaks_of_runs_and_pairs(
    here: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    said(capsys, "import", str(DATA / "cluster-md-fio.csv"), "--out", "r")
    said(capsys, "report", "r", "--as", kind)
    page = re.sub(
        r"<(style|script).*?</\1>", "", (here / f"r/report.{kind}").read_text(), flags=re.DOTALL
    )
    heads = [line for line in page.splitlines() if "change (interval)" in line]
    assert heads
    assert all("pairs" in line and "blocks" not in line for line in heads)
    if kind == "html":
        assert "Every run" in page
        assert ">repeat</th>" in page
        words = " ".join(re.sub(r"<[^>]+>", " ", page).split())
        for absent in ("trial", "Settings in force", "No facts recorded", "No command executed"):
            assert absent not in words.replace("iotrial", "")


def test_a_latency_at_the_end_of_fio_s_histogram_is_at_least_that_in_words(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "op,depth,p99_ms,p99_9_ms,lat_ms", "read,1,5,16712,1",
                 "read,2,16712,16712,>90", "read,4,6,9,<0.5")  # fmt: skip
    answer = said(capsys, "import", name, "--out", "r")
    told = [d["what"] for d in answer["doubts"] if d["check"] == "censored"]
    cut = "the file gives a bound (the end of a bin, or a value that was cut), no value"
    why = "the last bin of fio's histogram is there, and what took longer is counted in it"
    assert told == [
        f"read.lat.p99.9 is at least 16.712 s: {why}",
        f"read.lat.p99, read.lat.p99.9 are at least 16.712 s: {why}",
        f"read.lat.mean is at least 0.09 s: {cut}",
        f"read.lat.mean is at most 0.0005 s: {cut}",
    ]


def test_what_was_too_fast_to_tell_is_said_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = said(capsys, "import", str(DATA / "bonnie.csv"), "--out", "r")
    told = [d["trial"] for d in answer["doubts"] if d["check"] == "censored"]
    assert len(told) == len(set(told)) == 4


def test_a_run_named_by_its_job_alone_is_told_which_workload_it_may_be(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fio's terse output calls ``pair`` what its JSON calls ``randrw``."""
    (here / "old").mkdir()
    shutil.copy(RECORDED / "fio/mix/fio.json", here / "old/deadline.json")
    first = (RECORDED / "fio-terse/3.33-v3.txt").read_text().partition("\n")[0]
    (here / "old/noop.txt").write_text(first + "\n")
    said(capsys, "import", "old", "--out", "r")
    answer = said(capsys, "compare", "r")
    assert answer["findings"] == []
    (doubt,) = [d for d in answer["doubts"] if d["check"] == "alone"]
    assert "pair may be randrw" in doubt["what"]
    assert doubt["advice"].endswith("--label workload=randrw,randrw")
    said(capsys, "import", "old", "--out", "s", "--label", "workload=randrw,randrw")
    answer = said(capsys, "compare", "s")
    assert findings(answer, workload="randrw", metric="read.iops")
    assert "alone" not in {d["check"] for d in answer["doubts"]}


def test_the_columns_of_a_table_are_said_as_a_map_that_reads_it_alike(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(DATA / "violin.csv")
    assert status(["import", data, "--print-map"]) == 0
    text = capsys.readouterr().out
    assert 'arrays = "factor"' in text
    assert list(here.iterdir()) == []
    (here / "map.toml").write_text(text)
    alike = said(capsys, "import", data, "--out", "r")
    mapped = said(capsys, "import", data, "--map", "map.toml", "--out", "s")
    assert mapped["measurements"] == alike["measurements"]
    two = table(here, "t.csv", "op,iops", "read,5")
    assert status(["import", data, two, "--print-map"]) == 2
    assert "2 sets of columns" in capsys.readouterr().err
    assert status(["import", str(DATA / "bonnie.csv"), "--print-map"]) == 2


# -- which runs belong together ----------------------------------------------------------------


def table(folder: Path, name: str, *rows: str) -> str:
    (folder / name).write_text("\n".join(rows) + "\n")
    return name


def test_files_that_say_the_same_of_themselves_differ_by_their_names(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for array, rate in (("local", 100), ("clustered", 90)):
        for op in ("read", "write"):
            table(here, f"{array}-10G-{op}.csv", "workload,iops", f"{op},{rate}")
    answer = said(capsys, "import", *sorted(map(str, here.glob("*.csv"))), "--out", "r")
    assert answer["factors"] == {"file": ["clustered", "local"]}
    found = said(capsys, "compare", "r")
    assert one(found, workload="read")["ratio"] == pytest.approx(100 / 90)


def test_a_pattern_names_what_is_in_the_names_of_files(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for array in ("a", "b"):
        for size in ("1G", "10G"):
            table(here, f"{array}_{size}.csv", "workload,iops", "read,5")
    (here / "m.toml").write_text('files = "{array}_{size}.csv"\n[baselines]\narray = "b"\n')
    files = sorted(map(str, here.glob("*.csv")))
    answer = said(capsys, "import", *files, "--map", "m.toml", "--out", "r")
    assert answer["factors"] == {"array": ["a", "b"], "size": ["1G", "10G"]}
    assert {f["baseline"] for f in findings(said(capsys, "compare", "r"), factor="array")} == {"b"}


def test_runs_of_numbered_files_are_repeats(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = {"old": (100, 101, 102), "new": (120, 121, 123)}
    for array, number in product(rates, range(3)):
        rows = "workload,iops", f"read,{rates[array][number]}"
        table(here, f"{array}-run{number + 1}.csv", *rows)
        (here / f"run{number + 1}").mkdir(exist_ok=True)
        table(here / f"run{number + 1}", f"{array}.csv", *rows)
    flat, folders = (sorted(map(str, here.glob(each))) for each in ("*.csv", "run*/*.csv"))
    answer = said(capsys, "import", *flat, "--out", "r")
    assert answer["factors"] == {"file": ["old", "new"]}
    found = one(said(capsys, "compare", "r"), workload="read")
    assert (found["n"], found["low"], found["verdict"]) == (3, None, "cannot-tell"), "one session"
    answer = said(capsys, "import", *folders, "--out", "s")
    assert answer["factors"] == {"file": ["old", "new"]}
    found = one(said(capsys, "compare", "s"), workload="read")
    assert (found["n"], found["verdict"]) == (3, "better"), "each folder is a session"
    assert 1 < found["low"] < found["ratio"] < found["high"]


def test_labels_are_one_for_each_run_or_it_is_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "name,iops", "x,5", "y,6", "z,7")
    answer = said(capsys, "import", name, "--label", "scheduler=a,b,c", "--out", "r")
    assert answer["factors"] == {"scheduler": ["a", "b", "c"]}
    assert status(["import", name, "--label", "scheduler=a,b", "--out", "s"]) == 2
    assert "2 labels for 3 runs" in capsys.readouterr().err


# -- files that are wrong, and folders ---------------------------------------------------------


def test_originals_are_kept_with_their_checksums(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")
    said(capsys, "import", name, "--out", "r")
    (row,) = json.loads((here / "r" / "originals.json").read_text())
    assert (here / "r" / "originals" / "t.csv").read_bytes() == (here / name).read_bytes()
    assert row["bytes"] == (here / name).stat().st_size
    assert len(row["sha256"]) == 64


def test_a_packed_file_is_read_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.csv.gz").write_bytes(gzip.compress(b"scheduler,iops\na,5\nb,6\n"))
    assert len(said(capsys, "import", "t.csv.gz", "--out", "r")["measurements"]) == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "empty"), (b"\x1f\x8bnothing", "unpacked"), (bytes(range(256)), "no format knows")],
)
def test_what_is_no_result_is_refused_and_leaves_nothing(
    content: bytes, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "f").write_bytes(content)
    assert status(["import", "f", "--out", "r"]) == 2
    assert words in capsys.readouterr().err
    assert not (here / "r").exists()


def test_a_folder_that_is_there_is_not_written_into(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")
    said(capsys, "import", name, "--out", "r")
    assert status(["import", name, "--out", "r"]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("files = 5", "files: 5 is no str or list"),
        ('colums = "x"', "Did you mean 'columns'"),
        ('files = "x.csv"', "has no {name}"),
        ("[limits]\nspeed = 5", "limits: there are in_flight and link"),
        ('[baselines]\nscheduler = "z"', "no such level 'z'"),
        ("confidence = 2.0", "confidence"),
        ("= 5", "not TOML"),
    ],
)
def test_a_map_that_cannot_be_meant_is_refused_with_its_key(
    text: str, words: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")
    (here / "m.toml").write_text(text)
    assert status(["import", name, "--map", "m.toml", "--out", "r"]) == 2
    assert words in capsys.readouterr().err
    assert not (here / "r").exists()


def test_question_margin_and_baseline_may_be_edited_afterwards(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")
    said(capsys, "import", name, "--out", "r")
    study = here / "r" / "study.toml"
    study.write_text(
        study.read_text()
        .replace('question = "What do the results of t say?"', 'question = "Which?"')
        .replace('[factors."scheduler"]', '[factors."scheduler"]\nbaseline = "b"')
    )
    answer = said(capsys, "compare", "r")
    assert answer["question"] == "Which?"
    assert one(answer, factor="scheduler")["baseline"] == "b"
    study.write_text(study.read_text().replace('baseline = "b"', 'baseline = "z"'))
    assert status(["compare", "r"]) == 2
    assert "factors.scheduler.baseline" in capsys.readouterr().err


def test_a_report_of_imported_results_leads_to_the_originals(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")
    said(capsys, "import", name, "--out", "r")
    assert status(["report", "r", "--out", "page.html"]) == 0
    assert "originals/t.csv" in (here / "page.html").read_text()


def test_a_folder_is_read_for_what_is_a_result_in_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "old" / "deep").mkdir(parents=True)
    table(here / "old" / "deep", "t.csv", "scheduler,iops", "a,5", "b,6")
    (here / "old" / "notes").write_text("Remember the milk.\n")
    answer = said(capsys, "import", "old", "--out", "r")
    assert [each["file"] for each in answer["files"]] == ["deep/t.csv"]
    (doubt,) = [each for each in answer["doubts"] if each["check"] == "unread"]
    assert doubt["what"].startswith("notes: ")
    assert status(["import", "old/notes", "--out", "s"]) == 2


def test_a_place_that_cannot_be_written_is_named_in_words_of_the_verb(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")
    assert status(["import", name, "--out", "t.csv/r"]) == 2
    told = capsys.readouterr().err
    assert "t.csv/r cannot be written: Not a directory" in told
    said(capsys, "import", name, "--out", "r")
    assert status(["report", "r", "--out", "gone/deep/r.html"]) == 2
    told += capsys.readouterr().err
    assert "Folder gone does not exist: create it, or name another path with --out." in told
    assert status(["compare", "r", "--junit", "gone/x.xml"]) == 2
    told += capsys.readouterr().err
    assert "name another path with --junit" in told
    assert "Settings are restored" not in told


def test_a_disk_that_is_full_leaves_no_half_of_a_folder(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = table(here, "t.csv", "scheduler,iops", "a,5", "b,6")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("iotrial_import.folder._copied", full)
        assert status(["import", name, "--out", "r"]) == 5
    told = capsys.readouterr().err
    assert "No space left" in told
    assert "trials" not in told
    assert not list(here.glob("r*"))
    (here / "r.partial").mkdir()  # of an import that was killed
    said(capsys, "import", name, "--out", "r")
    assert [path.name for path in here.glob("r*")] == ["r"]


def test_a_large_file_is_kept_byte_for_byte_with_its_digest(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (f"{n // 50}, {1000 + n % 977}, 0, 4096, 0\n" for n in range(120_000))
    content = "".join(lines).encode()
    assert len(content) > 2 * 2**20, "several pieces, and a part of one"
    (here / "job_clat.1.log").write_bytes(content)
    said(capsys, "import", "job_clat.1.log", "--out", "r")
    assert (here / "r" / "originals" / "job_clat.1.log").read_bytes() == content
    (row,) = json.loads((here / "r" / "originals.json").read_text())
    assert row["bytes"] == len(content)
    assert row["sha256"] == hashlib.sha256(content).hexdigest()


def test_two_imported_folders_are_compared_and_a_regression_is_exit_1(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, rates in (("old", (100, 101, 102)), ("new", (80, 81, 82))):
        rows = [f"read,{rate}" for rate in rates]
        said(capsys, "import", table(here, f"{name}.csv", "workload,iops", *rows), "--out", name)
    assert status(["compare", "old", "new", "--json"]) == 0, "one session of each"
    capsys.readouterr()
    assert status(["compare", "old", "new", "--between", "2%", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (finding,) = found["findings"]
    assert (finding["workload"], finding["metric"], finding["verdict"], finding["n"]) == (
        "read", "read.iops", "worse", 3,
    )  # fmt: skip


def test_imported_loads_that_are_not_the_same_are_not_compared(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, depth in (("old", 4), ("new", 1)):
        rows = [
            f"{load},{depth if load == 'read' else 8},{100 * depth}" for load in ("read", "write")
        ]
        told = table(here, f"{name}.csv", "workload,iodepth,iops", *rows)
        said(capsys, "import", told, "--out", name)
    answer = said(capsys, "compare", "old", "new")
    assert {f["workload"] for f in answer["findings"]} == {"write"}
    assert "read is excluded: different load (iodepth = 4 and 1)" in answer["recommendation"]
    assert status(["compare", "old", "new", "--where", "workload=read"]) == 2
    assert "iodepth = 4 and 1" in capsys.readouterr().err


def test_bytes_and_seconds_are_a_bandwidth(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = ("array,op,bytes,seconds", "a,read,4000,2", "b,read,1000,1")
    said(capsys, "import", table(here, "t.csv", *rows), "--out", "r")
    found = one(said(capsys, "compare", "r"), metric="read.bw")
    assert found["ratio"] == pytest.approx(0.5)
    assert found["primary"]


def test_a_report_is_made_where_nothing_can_be_said_of_a_pair(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "sched,wl,iops", "a,x,>100", "b,x,>110")
    said(capsys, "import", name, "--out", "r")
    assert status(["report", "r"]) == 0
    labels = "--label", "scheduler=cfq,deadline,anticipatory,noop"
    said(capsys, "import", str(DATA / "bonnie.csv"), *labels, "--out", "b")
    assert status(["report", "b"]) == 0


def test_what_a_map_says_of_columns_counts(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = table(here, "t.csv", "who,date,iops", "a,mon,5", "b,tue,6")
    (here / "m.toml").write_text('[columns]\ndate = "note"\n')
    answer = said(capsys, "import", name, "--map", "m.toml", "--out", "r")
    assert answer["factors"] == {"who": ["a", "b"]}
    for wrong, words in (
        ('nosuch = "note"', "no column 'nosuch'"),
        ('date = "repeet"', "repeet"),
        ('iops = { metric = "iops", unit = "furlong" }', "furlong"),
    ):
        (here / "m.toml").write_text(f"[columns]\n{wrong}\n")
        assert status(["import", name, "--map", "m.toml", "--out", "s"]) == 2
        assert words in capsys.readouterr().err


def test_a_number_that_may_mean_two_is_refused_until_the_mark_is_said(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "sched;lat_ms", "none;1.234", "bfq;2.345")
    assert status(["import", name, "--out", "r"]) == 2
    assert "a thousand times" in capsys.readouterr().err
    (here / "m.toml").write_text('decimal = "."\n')
    answer = said(capsys, "import", name, "--map", "m.toml", "--out", "r")
    assert answer["measurements"][0]["value"] == pytest.approx(0.001234)


def test_repeats_of_few_cells_count(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f"{state},{load},{day},{base * factor + noise}"
        for load, base in (("read", 1000), ("write", 500))
        for state, factor in (("before", 1.0), ("after", 0.9))
        for day, noise in zip(("mon", "tue", "wed", "thu", "fri"), (-3, 1, 2, 0, 5), strict=True)
    ]
    name = table(here, "t.csv", "state,workload,session,iops", *rows)
    said(capsys, "import", name, "--baseline", "state=before", "--out", "r")
    answer = said(capsys, "compare", "r")
    found = one(answer, workload="all")
    assert found["verdict"] == "worse"
    assert "state against before: after worse" in answer["recommendation"]


def test_the_same_ratio_twice_has_no_interval(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = table(here, "t.csv", "s,wl,iops", "a,x,100", "b,x,110", "a,y,200", "b,y,220")
    said(capsys, "import", name, "--out", "r")
    found = one(said(capsys, "compare", "r"), factor="s")
    assert (found["n"], found["low"], found["verdict"]) == (2, None, "cannot-tell")


def test_one_workload_can_be_asked_for_and_its_values_are_those_compared(
    redhawk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = "--where", "workload=random_read"
    answer = said(capsys, "compare", str(redhawk), "--factor", "queue_depth", *where)
    found = one(answer, factor="queue_depth")
    assert found["value"] / found["baseline_value"] == pytest.approx(found["ratio"], rel=0.02)
    assert answer["recommendation"].startswith("queue_depth against 30: 256 +0.2 %.")


def test_few_rows_with_iops_do_not_hide_the_bandwidth_of_many(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(here, "a.csv", "fs,op,mb_s", *(f"{fs},read,{n}" for fs in "ab" for n in (10, 11, 12)))
    table(here, "b.csv", "fs,op,iops", "a,read,5", "b,read,6")
    said(capsys, "import", "a.csv", "b.csv", "--out", "r")
    assert one(said(capsys, "compare", "r"), metric="read.bw")["primary"]


def test_files_may_be_named_in_several_ways(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("fio-a-1.csv", "fio-b-1.csv", "dd_a.csv", "dd_b.csv"):
        table(here, name, "workload,iops", "read,5")
    (here / "m.toml").write_text('files = ["fio-{array}-{size}.csv", "dd_{array}.csv"]\n')
    files = sorted(map(str, here.glob("*.csv")))
    answer = said(capsys, "import", *files, "--map", "m.toml", "--out", "r")
    assert answer["factors"] == {"array": ["a", "b"]}


def test_links_in_a_folder_are_left_out(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a stranger's folder links to is not the stranger's to import."""
    theirs = here / "theirs"
    theirs.mkdir()
    (here / "mine.csv").write_text("sched,IOPS\na,5\nb,6\n")
    (theirs / "linked.csv").symlink_to(here / "mine.csv")
    assert status(["import", "theirs", "--out", "none", "--json"]) == 2
    assert "name what they lead to" in capsys.readouterr().err
    (theirs / "own.csv").write_text("sched,IOPS\na,5\nb,6\n")
    said(capsys, "import", "theirs", "--out", "one")
    kept = {path.name for path in (here / "one").rglob("*.csv")}
    assert kept == {"own.csv"}


def test_a_legend_with_an_endless_number_is_a_mistake_told_in_words(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.csv").write_text("sched,IOPS\na,5\nb,6\n")
    (here / "map.toml").write_text(f"x = {'9' * 5000}\n")
    assert status(["import", "t.csv", "--map", "map.toml", "--out", "none"]) == 2
    assert "map.toml" in capsys.readouterr().err

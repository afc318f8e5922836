"""Plugins: where they come from, what is refused, and what every one must do."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

import factories
from absent import without
from iotrial import plugins
from iotrial.conformance import problems
from iotrial.errors import StudyError, UsageError
from iotrial.hosts.local import LocalHost
from iotrial.hosts.via import connector
from iotrial.judgement import judge
from iotrial.keep.profile import Profile, parse, to_toml
from iotrial.model.host import Connector
from iotrial.model.step import Step, StepResult
from iotrial.model.study import StudyHost
from iotrial.plan.load import parse_study
from iotrial.plugins import KINDS, Plugin, PluginWarning
from iotrial.report import study
from iotrial.report.view import view

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin"
RULE = """
    from iotrial_lint.rule import Rule
    RULE = Rule("{name}", "title", "note", ("sysctl",), "reason", "source")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's own folder, as the registries see it from now on."""
    made = tmp_path / "plugins"
    made.mkdir()
    monkeypatch.setenv("IOTRIAL_PLUGINS", str(made))
    caches = (plugins.plugins, plugins._found, plugins._files)
    for each in caches:
        each.cache_clear()
    yield made
    for each in caches:
        each.cache_clear()


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def iotrial(
    *words: str | Path, code: int = 0, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | dict(more or {}),
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def every() -> list[Plugin]:
    return [plugin for kind in KINDS for plugin in plugins.plugins(kind)]


@pytest.mark.parametrize("kind", [name for name, kind in KINDS.items() if kind.packages])
def test_what_iotrial_brings_conforms(kind: str) -> None:
    found = plugins.plugins(kind)
    assert found
    assert {plugin.name: problems(plugin) for plugin in found} == {
        plugin.name: () for plugin in found
    }


def test_a_file_of_the_folder_is_a_plugin_with_its_digest(folder: Path) -> None:
    path = write(folder, "mine.py", RULE.format(name="mine"))
    (mine,) = plugins.added("lint")
    assert (mine.name, mine.origin.kind, mine.origin.place) == ("mine", "file", str(path))
    assert mine.origin.version.startswith("sha256:")
    assert plugins.values("lint")["mine"] is mine.value


def test_a_module_may_have_one_check_by_any_name_or_several(folder: Path) -> None:
    write(
        folder,
        "mine.py",
        """
        from iotrial.model.validity import ValidityCheck, check
        from iotrial.validity.processor import steal

        CHECK = ValidityCheck("moon", "title", "looks at", "limit", "remedy", "source")

        @check("tide", "title", looks_at="it", limit="limit", remedy="remedy", source="source")
        def tide(case):
            \"\"\"What it is about.\"\"\"
            yield tide.doubt("high")
        """,
    )
    assert [plugin.name for plugin in plugins.added("validity")] == ["moon", "tide"]
    assert plugins.values("validity")["tide"].about == "What it is about."


def test_a_plugin_that_cannot_be_loaded_is_named_and_the_others_work(folder: Path) -> None:
    write(folder, "a_broken.py", "import there_is_no_such_module")
    write(folder, "b_wrong.py", "FORMAT = 1")
    write(folder, "c_empty.py", "x = 1")
    write(folder, "d_line.py", "\n\ndef (:\n")
    write(folder, "e_good.py", RULE.format(name="good"))
    with pytest.warns(PluginWarning) as told:
        assert [plugin.name for plugin in plugins.added("lint")] == ["good"]
    assert [str(each.message).partition("is ignored: ")[2] for each in told] == [
        "ModuleNotFoundError: No module named 'there_is_no_such_module'",
        "its FORMAT is of type int, not RecordingFormat",
        f"it has none of {', '.join(each.attribute for each in KINDS.values())}",
        "line 3: invalid syntax",
    ]


def test_one_file_holds_as_many_rules_as_it_has_functions(folder: Path) -> None:
    text = """
        from iotrial_lint.rule import host_rule, rule
        from iotrial_lint.rules.sysctl import swappiness_zero

        @rule("one", "title", "note", ("sysctl",), reason="reason", source="source")
        def one(sheet, scene):
            \"\"\"About one.\"\"\"
            return ()

        @host_rule("two", "title", "note", reason="reason", source="source")
        def two(scene):
            \"\"\"About two.\"\"\"
            return ()
    """
    write(folder, "mine.py", text)
    assert [(each.name, each.value.about) for each in plugins.added("lint")] == [
        ("one", "About one."),
        ("two", "About two."),
    ]
    assert all(problems(each) == () for each in plugins.added("lint"))


def test_two_plugins_of_one_name_are_an_error(folder: Path) -> None:
    write(folder, "one.py", RULE.format(name="twice"))
    write(folder, "two.py", RULE.format(name="twice"))
    with pytest.raises(UsageError, match=r"define 'twice': .*one\.py .*two\.py"):
        plugins.plugins("lint")
    assert "swappiness-zero" not in {plugin.name for plugin in plugins.added("tools")}


def test_a_plugin_cannot_take_the_name_of_one_that_iotrial_brings(folder: Path) -> None:
    path = write(folder, "mine.py", RULE.format(name="swappiness-zero"))
    with pytest.raises(UsageError, match=r"iotrial_lint\.rules\.sysctl"):
        plugins.plugins("lint")
    (mine,) = plugins.in_file(path)
    assert any("a plugin called 'swappiness-zero' already" in said for said in problems(mine))


def test_an_empty_variable_means_no_folder() -> None:
    assert plugins.folder({"IOTRIAL_PLUGINS": "", "HOME": "/home/me"}) is None
    assert plugins.folder({"HOME": "/home/me"}) == Path("/home/me/.config/iotrial/plugins")
    assert plugins.folder({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/iotrial/plugins")
    assert plugins.folder({"IOTRIAL_PLUGINS": "/p", "XDG_CONFIG_HOME": "/c"}) == Path("/p")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('RULE = Rule("no fix", "t", "fatal", (), "r", "")', "its severity 'fatal' is not one of"),
        ('RULE = Rule("no fix", "t", "note", (), "r", "")', "its source is empty"),
        ('RULE = Rule("No", "t", "note", ("sysctl",), "r", "s")', "its name 'No' is not of the"),
        ('RULE = Rule("no", "t", "note", (), "r", "s")', "it judges no kind of file, and no host"),
        ('RULE = Rule("no", "t", "note", ("ini",), "r", "s")', "unknown kind 'ini' of file"),
        (
            'RULE = Rule("no", "t", "note", ("sysctl",), "r", "s", "", lambda a, b: 1 / 0)',
            "it raises ZeroDivisionError in line 2: division by zero",
        ),
        (
            'RULE = Rule("no", "t", "note", ("fstab",), "r", "s", "", lambda a, b: [1])',
            "it speaks of an empty file of kind fstab",
        ),
    ],
)
def test_a_lint_rule_that_does_not_conform(folder: Path, text: str, said: str) -> None:
    path = write(folder.parent, "mine.py", f"from iotrial_lint.rule import Rule\n{text}")
    (mine,) = plugins.in_file(path)
    assert any(said in problem for problem in problems(mine)), problems(mine)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('Tunable("other.x", "/x", "does", source="s")', "does not begin with mine., its family"),
        ('Tunable("mine.x", "x", "does", source="s")', "it has neither a file (path) nor"),
        ('Tunable("mine.x", "/x", "does", source="s")', "all devices would share one value"),
        ('Tunable("mine.x", "/{device}", "", source="s")', "its summary is empty"),
        ('Tunable("mine.x", "/{device}", "does")', "its source is empty"),
        (
            'Tunable("mine.x", "/{device}", "does", source="s", moves=("queue.nothing",))',
            "it moves 'queue.nothing', which is not the name of a tunable",
        ),
        (
            'Tunable("mine.x", "/{device}", "does", source="s", domain=lambda raw: int(raw))',
            "it raises ValueError in line 4",
        ),
        (
            'Tunable("mine.x", "/sys/block/{device}/queue/scheduler", "does", source="s")',
            "queue.scheduler is the same setting",
        ),
    ],
)
def test_a_tunable_that_does_not_conform(folder: Path, row: str, said: str) -> None:
    head = 'from iotrial.model.tunable import Tunable\nFAMILY = "mine"\nTITLE = "t"\n'
    path = write(folder.parent, "mine.py", f"{head}TUNABLES = ({row},)\n")
    (mine,) = plugins.in_file(path)
    assert any(said in problem for problem in problems(mine)), problems(mine)


TOOL = """
    from iotrial.model.measurement import Measurement
    from iotrial.model.tool import Load, ParsedOutput, LoadAccess

    class Mine:
        name, summary, program, package = "mine", "does", "mine", "mine"

        def check(self, workload, facts):
            return [(name, "no such option") for name, _ in workload.options]

        def reach(self, workload):
            return LoadAccess(reads=True, writes=False)

        def command(self, workload, aimed, facts):
            return Load(("mine", aimed.path))

        def seconds(self, workload, aimed):
            return 1.0

        def version_problem(self, version):
            return ""

        def parse(self, folder):
            return ParsedOutput(())

    TOOL = Mine()
"""


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ("", "", ""),
        ("return 1.0", "return 0.0", "seconds at a device are not more than 0"),
        ('"mine", aimed.path', '"mine"', "the command at a device does not name it"),
        ('Load(("mine", aimed.path))', 'Load((aimed.path,), (("../x", b""),))', "'../x' is not in"),
        (
            "ParsedOutput(())",
            'ParsedOutput((Measurement("read.bw", 1.0, "bytes/s"),))',
            "returns measurements for",
        ),
        ("for name, _ in workload.options", "for name in ()", "accepts an unknown option"),
    ],
)
def test_a_tool_that_does_not_conform(folder: Path, now: str, then: str, said: str) -> None:
    path = write(folder.parent, "mine.py", TOOL.replace(now, then) if now else TOOL)
    (mine,) = plugins.in_file(path)
    assert (problems(mine) == ()) is (said == "")
    assert any(said in problem for problem in problems(mine)) or not said


def test_try_says_what_does_not_conform_and_its_exit_code_too(tmp_path: Path) -> None:
    good = write(tmp_path, "good.py", TOOL)
    assert "✓ tools mine" in iotrial("plugins", "try", good).stdout
    bad = write(tmp_path, "bad.py", TOOL.replace("return 1.0", "return 0.0"))
    said = iotrial("plugins", "try", bad, "--json", code=1)
    (plugin,) = json.loads(said.stdout)["plugins"]
    assert plugin["problems"][0] == "seconds at a device are not more than 0"
    text = write(tmp_path, "text.py", "this is no Python")
    assert "line 1: invalid syntax" in iotrial("plugins", "try", text, code=2).stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built as a wheel and installed beside iotrial."""
    built, place = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("beside")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built],
        cwd=EXAMPLE,
        capture_output=True,
        check=True,
        timeout=120,
    )
    (wheel,) = built.iterdir()
    with zipfile.ZipFile(wheel) as packed:  # all that installing a wheel of pure Python is
        packed.extractall(place)
    return place


def test_an_installed_package_is_listed_and_used(installed: Path, tmp_path: Path) -> None:
    beside = {"PYTHONPATH": str(installed)}
    listed = json.loads(iotrial("plugins", "--json", more=beside).stdout)["plugins"]
    added = [each for each in listed if each["origin"] != "built-in"]
    assert [(each["kind"], each["name"], each["place"], each["version"]) for each in added] == [
        ("tunables", "swap", "iotrial-example", "1.0"),
        ("tools", "pread", "iotrial-example", "1.0"),
        ("lint", "laptop-mode", "iotrial-example", "1.0"),
    ]
    knob = iotrial("knobs", "swap.vma_ra_enabled", "--json", more=beside)
    assert json.loads(knob.stdout)["tunables"][0]["scope"] == "host"
    sysctl = write(tmp_path, "60-mine.conf", "vm.laptop_mode = 5\n")
    assert "rule: laptop-mode" in iotrial("lint", "--as", "sysctl", sysctl, more=beside).stdout
    assert "rule: laptop-mode" not in iotrial("lint", "--as", "sysctl", sysctl).stdout


STUDY = """
    question = "Is a larger block faster?"

    [targets.file]
    file = "{file}"
    size = "1MiB"

    [workloads.read]
    tool = "pread"
    options = {{ runtime = 0.1 }}

    [factors.block]
    option = "bs"
    levels = [512, 65536]
    baseline = 512

    [design]
    blocks = 2
"""


def test_a_run_names_the_plugin_that_it_used(installed: Path, tmp_path: Path) -> None:
    beside = {"PYTHONPATH": str(installed)}
    file = tmp_path / "file"
    file.write_bytes(os.urandom(2**20))
    study = write(tmp_path, "study.toml", STUDY.format(file=file))
    out = tmp_path / "out"
    beside["IOTRIAL_STATE"] = str(tmp_path / "state")
    iotrial("run", study, "--out", out, more=beside)
    facts = json.loads((out / "hosts" / "local.json").read_text("utf-8"))
    assert facts["plugins"] == {"tools pread": "iotrial-example 1.0"}
    assert "plugin tools pread (iotrial-example 1.0)" in (out / "report.html").read_text("utf-8")
    # Half a study with one version of a plugin and half with another would be compared.
    (installed / "iotrial_example-1.0.dist-info").rename(
        installed / "iotrial_example-1.1.dist-info"
    )
    metadata = installed / "iotrial_example-1.1.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    again = iotrial("run", out, "--more-blocks", "1", more=beside, code=2)
    changed = "tools pread was iotrial-example 1.0, is iotrial-example 1.1"
    assert f"was started with other plugins: {changed}" in again.stderr


HOST = """
    from iotrial.hosts.ssh import through
    from iotrial.model.host import Connector

    EXAMPLE = "{state}"

    def check(to):
        return "" if to.startswith("/") else "name its folder of state"

    HOST = Connector(
        "boxed", "commands with a state of their own",
        through(lambda to: ["env", "-i", f"IOTRIAL_STATE={{to}}"]), check,
    )
"""
BOXED = """
    question = "Is a larger block faster?"

    [hosts.box]
    via = "boxed://{state}"

    [targets.file]
    file = "{file}"
    size = "4MiB"

    [workloads.read]
    tool = "dd"
    options = {{ rw = "read", bs = "64KiB", size = "4MiB", direct = false }}
    prepare = ["lay out"]

    [factors.block]
    option = "bs"
    levels = ["64KiB", "1MiB"]

    [design]
    blocks = 2
    settle = "0s"
"""


def test_a_host_plugin_of_one_file_is_tried_and_runs_a_study(tmp_path: Path) -> None:
    state, own = tmp_path / "state", tmp_path / "own"
    own.mkdir()
    path = write(own, "boxed.py", HOST.format(state=state))
    assert "✓ hosts boxed" in iotrial("plugins", "try", path).stdout
    beside = {"IOTRIAL_PLUGINS": str(own)}
    file, out = tmp_path / "file", tmp_path / "out"
    study = write(tmp_path, "study.toml", BOXED.format(state=state, file=file))
    assert "boxed:///" in iotrial("doctor", "--hosts", study, more=beside).stdout
    iotrial("run", study, "--out", out, more=beside)
    assert (state / "journal.d").is_dir(), "the host's books are where its wrapper says"
    assert not file.exists(), "what was laid out is removed again"
    (facts,) = [json.loads(each.read_text("utf-8")) for each in (out / "hosts").glob("*.json")]
    origin = facts["plugins"]["hosts boxed"]
    assert re.fullmatch(rf"{re.escape(str(path))} sha256:[0-9a-f]{{12}}", origin)
    assert f"plugin hosts boxed ({origin})" in (out / "report.html").read_text("utf-8")
    assert (
        "No setting is left to restore" in iotrial("status", f"boxed://{state}", more=beside).stdout
    )
    assert (
        "No setting is left to restore"
        in iotrial("restore", f"boxed://{state}", more=beside).stdout
    )
    write(tmp_path, "study.toml", BOXED.format(state="/nowhere", file="/tmp/file"))
    iotrial("run", study, "--pretend", "--out", tmp_path / "made-up", more=beside)
    (made_up,) = (json.loads(p.read_text()) for p in (tmp_path / "made-up/hosts").glob("*.json"))
    assert made_up["kernel"] != facts["kernel"], "a made-up machine stands in for the box"
    assert "plugins" not in made_up


@pytest.mark.parametrize(
    ("via", "said"),
    [
        ("boxed://here", "name its folder of state"),
        ("boxd:///x", "no plugin reaches hosts by boxd://"),
        ("boxed", "'boxed' does not name a host"),
        ("ssh://box", "ssh is not for via"),
        ("fake://", "fake is not for via"),
        ("boxed:///x\\u001b[2J", "does not name a host"),
    ],
)
def test_a_way_that_no_plugin_knows_is_refused_with_its_line(
    folder: Path, tmp_path: Path, via: str, said: str
) -> None:
    write(folder, "boxed.py", HOST.format(state="/x"))
    text = textwrap.dedent(BOXED.format(state="/x", file=tmp_path / "file"))
    with pytest.raises(StudyError, match=r"study\.toml:5: hosts\.box\.via: ") as caught:
        parse_study(text.replace("boxed:///x", via), "study.toml", str)
    assert said in caught.value.message


def test_a_profile_keeps_how_a_host_is_reached(folder: Path) -> None:
    write(folder, "boxed.py", HOST.format(state="/x"))
    text = to_toml(
        Profile("mine", (), hosts=(StudyHost("box", via="boxed:///x"), StudyHost("b", "b")))
    )
    keep = '[[keep]]\ntunable = "sysctl.vm.swappiness"\nvalue = "1"\n'
    assert parse(text + keep, "profile.toml").hosts == (
        StudyHost("box", via="boxed:///x"),
        StudyHost("b", "b"),
    )
    with pytest.raises(StudyError, match="no plugin reaches hosts by other://"):
        parse(text.replace("boxed://", "other://") + keep, "profile.toml")


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ('EXAMPLE = "{state}"', "", "it has no EXAMPLE"),
        ('startswith("/")', 'startswith("x")', "EXAMPLE: name its folder of state"),
        ('["env", "-i"', '["env", "-i", "false"', "it raises HostUnreachable: example: cannot"),
        ('["env", "-i"', '["no-such-program"', "no-such-program is not installed on this host"),
        ('["env", "-i"', '["env", "-i", "HOME=/"', ""),
    ],
)
def test_a_host_plugin_that_does_not_conform(
    folder: Path, tmp_path: Path, now: str, then: str, said: str
) -> None:
    text = HOST.replace(now, then).format(state=tmp_path / "state")
    (mine,) = plugins.in_file(write(folder.parent, "boxed.py", text))
    found = problems(mine)
    assert any(said in problem for problem in found) if said else found == ()


def test_two_ways_of_one_name_are_an_error_and_other_hosts_are_reached(
    folder: Path, tmp_path: Path
) -> None:
    write(folder, "one.py", HOST.format(state="/x"))
    write(folder, "two.py", HOST.format(state="/x"))
    with pytest.raises(UsageError, match=r"define 'boxed': .*one\.py .*two\.py"):
        connector("boxed")
    assert connector("local").name == "local"
    own = {"IOTRIAL_PLUGINS": str(folder), "IOTRIAL_STATE": str(tmp_path / "state")}
    assert "No setting is left to restore" in iotrial("restore", more=own).stdout


class Careless(LocalHost):
    """Writes nowhere, keeps no lock, hands out no mark, and says what was asked for of nothing."""

    def write(self, path: str, data: bytes) -> None:
        self.save(path, data)

    def lock(self, path: str) -> AbstractContextManager[None]:
        return nullcontext(self.save(path, b""))

    def mark(self, environment: Mapping[str, str]) -> None:
        pass

    def batch(self, steps: Sequence[Step]) -> tuple[StepResult, ...]:
        return tuple(StepResult(b"old\n") for _ in steps)


def test_each_verb_that_a_host_breaks_is_named(folder: Path) -> None:
    (local,) = [each for each in plugins.plugins("hosts") if each.name == "local"]
    bad = Connector("bad", "a host", lambda _access: nullcontext(Careless()))
    assert problems(dataclasses.replace(local, name="bad", value=bad)) == (
        "the host is called 'local', and not as it was told",
        "write does not write over the beginning of the file alone",
        "batch does not do its steps in order, and writes what differs alone",
        "batch gives no ENOENT for a file that is not there",
        "a lock that is held can be taken once more",
        "a command does not carry the mark",
    )


SECTION = """
    from iotrial.report.blocks import Text
    from iotrial.report.sections import ReportSection

    def blocks(judged):
        if judged.results.study.name == "breaks":
            raise KeyError("no such trial")
        yield Text(f"{len(judged.results.records)} trials & <more>")

    SECTION = ReportSection("count", "How many trials", blocks)
"""


def test_a_section_of_a_plugin_stands_in_the_report(folder: Path) -> None:
    write(folder, "count.py", SECTION)
    results = factories.results()
    page = study.html(view(judge(results)))
    assert "How many trials</h2>" in page
    assert f"<p>{len(results.records)} trials &amp; &lt;more&gt;</p>" in page


def test_a_built_in_plugin_is_tried_by_its_own_file() -> None:
    file = Path(plugins.__file__).parent / "tools" / "dd.py"
    assert "✓ tools dd" in iotrial("plugins", "try", file).stdout


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("judged.results.records", "judged.counts.executed", "in line 8: 'TrialCounts' object has"),
        ("yield Text(", "yield (", "its blocks gives something that is no block"),
    ],
)
def test_a_section_is_tried_on_a_study(folder: Path, was: str, now: str, told: str) -> None:
    good = write(folder, "count.py", SECTION)
    assert "✓ sections count" in iotrial("plugins", "try", good).stdout
    bad = write(folder, "count.py", SECTION.replace(was, now))
    assert told in iotrial("plugins", "try", bad, code=1).stdout


def test_a_section_that_fails_says_so_and_the_report_is_written(folder: Path) -> None:
    write(folder, "count.py", SECTION)
    results = factories.results()
    broken = dataclasses.replace(results, study=dataclasses.replace(results.study, name="breaks"))
    page = study.html(view(judge(broken)))
    assert "The plugin failed: KeyError" in page
    assert "Verdicts" in page


RUNS = """
    question = "Does read-ahead matter?"

    [targets.disk]
    loop = { size = "64MiB" }

    [workloads.read]
    tool = "fio"
    options = { rw = "read", bs = "64k", runtime = "1s" }

    [factors.ahead]
    tunable = "queue.read_ahead_kb"
    levels = [128, 512]
    baseline = 128

    [design]
    blocks = 2
"""
WINGS = (
    "iotrial_import", "iotrial_lint", "iotrial_record", "iotrial_store", "iotrial_suites",
    "iotrial_vmlab",
)  # fmt: skip


def without_wings(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iotrial.cli.main", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **without(*WINGS)},
    )


@pytest.mark.parametrize(
    ("verb", "wing"),
    [
        ("import", "iotrial_import"),
        ("lint", "iotrial_lint"),
        ("check", "iotrial_suites"),
        ("vmlab", "iotrial_vmlab"),
        ("record", "iotrial_record"),
    ],
)
def test_a_verb_of_a_wing_that_is_not_installed_says_so(verb: str, wing: str) -> None:
    done = without_wings(verb, "x")
    assert done.returncode == 2
    assert f"the verb {verb} is not installed: the package {wing} is missing" in done.stderr


def test_the_core_does_its_work_without_any_wing(tmp_path: Path) -> None:
    assert without_wings("--help").returncode == 0
    text = write(tmp_path, "study.toml", RUNS)
    done = without_wings("run", text, "--pretend", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/report.html").exists()
    listed = without_wings("plugins", "--json")
    kinds = {row["kind"] for row in json.loads(listed.stdout)["plugins"]}
    assert {"tunables", "tools", "formats", "validity", "native"} <= kinds
    assert not {"lint", "suites", "labs", "reports"} & kinds
    both = without_wings("report", tmp_path / "out", tmp_path / "out")
    assert both.returncode == 2
    assert "the package iotrial_suites is missing" in both.stderr


REFUSES = """
    from iotrial.report.sections import FolderReport

    def written(folders, kind, base):
        raise PermissionError(13, "Permission denied", str(folders[0] / "secret"))

    REPORT = FolderReport(
        "mine", "mine", {"html": "html"}, lambda folder: (folder / "mine").exists(), written
    )
"""


def test_what_cannot_be_read_is_not_told_as_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    write(tmp_path, "mine.py", REFUSES)
    (tmp_path / "results/mine").mkdir(parents=True)
    own = {"IOTRIAL_PLUGINS": str(tmp_path)}
    done = iotrial("report", tmp_path / "results", more=own, code=5)
    assert str(tmp_path / "results/secret") in done.stderr
    assert "cannot be written" not in done.stderr

"""What mdadm tells of an array, in all its forms, is what the kernel has."""

from iotrial.checks.arrays import MDADM, TWO, agrees, create, sysfs, whole
from iotrial.checks.vocabulary import expect, read, run
from iotrial.model.check import Case, Scene, Script

ORDER = 22


def steps(scene: Scene) -> Script:
    node = yield from create(scene)
    yield from whole(node, TWO)
    told = yield from agrees(node)
    size = yield from read(f"/sys/block/{node.removeprefix('/dev/')}/size")
    words = str(told.get("Array Size")).split()
    expect(
        words[0].isdigit() and int(words[0]) * 2 == int(size),
        f"mdadm says {words[0]} KiB, the kernel {int(size) // 2}",
    )
    export = yield from run("mdadm", "--detail", "--export", node)
    said = dict(line.partition("=")[::2] for line in export.stdout.splitlines())
    expect(said.get("MD_UUID") == told.get("UUID"), f"--export says UUID {said.get('MD_UUID')}")
    expect(said.get("MD_DEVICES") == "2", f"--export says {said.get('MD_DEVICES')} devices")
    members = yield from run("ls", sysfs(node).removesuffix("md") + "slaves")
    for name in members.stdout.split():
        expect(f"/dev/{name}" in export.stdout, f"--export does not name the member {name}")
    scan = yield from run("mdadm", "--detail", "--scan")
    expect(str(told.get("UUID")) in scan.stdout, "--detail --scan does not know it")


CASE = Case("detail", "mdadm --detail, --export and --scan tell what the kernel has", steps, MDADM)

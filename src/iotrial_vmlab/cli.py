"""``iotrial vmlab``: virtual storage laboratories, whose nodes are ordinary hosts."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.text import Text

from iotrial.cli.output import Output, common
from iotrial.errors import HostError, UsageError
from iotrial.hosts.local import LocalHost
from iotrial.report.layout import TextTable
from iotrial.units import format_bytes, format_wait

if TYPE_CHECKING:
    from iotrial_vmlab.lab import Lab, LabFolders, LabNode, LabRequest


STABLE = "stable"
_KERNEL = click.option(
    "--kernel",
    type=click.Choice([STABLE, "backports", "both"]),
    help="Debian's own, the newer one of its backports, or both.  [default: stable, or the lab's]",
)


@click.group()
def command() -> None:
    """Virtual storage labs: machines of QEMU with disks of every kind, for tests and trials.

    \b
    Example:
      iotrial vmlab up disks             one node; prints what a study says of it
      iotrial vmlab exec disks-1 lsblk
      iotrial vmlab cut disks-1          its power; `up disks` boots it again
      iotrial vmlab down disks           nothing of it is left
    """


@command.command()
@click.argument("kind", metavar="NAME")
@click.option("--name", metavar="NAME", help="What the lab is called.  [default: NAME]")
@click.option("--nodes", type=int, metavar="NUMBER", help="How many.  [default: as NAME has it]")
@_KERNEL
@common
def up(output: Output, kind: str, name: str | None, nodes: int | None, kernel: str | None) -> None:
    """Bring up the lab NAME, or boot those of its nodes that are off.

    The first time an image is built, as root, in a few minutes.

    \b
    Example:
      sudo IOTRIAL vmlab up disks
      iotrial vmlab up disks --name other --nodes 2
      sudo IOTRIAL vmlab up disks --name newer --kernel backports
    """
    from iotrial_vmlab.lab import LabRequest, checked_name

    began = time.monotonic()
    wish = LabRequest(kind, checked_name(name or kind), nodes, kernel)
    with _host(f"vmlab up {wish.name}") as host, host.lock(str(_places().locks / wish.name)):
        lab, accelerator = _up(output, host, wish)
    taken = time.monotonic() - began
    output.document({**_row(lab), "accelerator": accelerator, "seconds": round(taken, 1)})
    how = "by KVM" if accelerator == "kvm" else "emulated"
    output.answer(f"{lab.name} is up in {format_wait(taken)}, {how}")
    if not output.json:
        output.text(_entries(lab))


def _up(output: Output, host: LocalHost, wish: LabRequest) -> tuple[Lab, str]:
    from iotrial_vmlab import power
    from iotrial_vmlab.image import built, need, opened
    from iotrial_vmlab.lab import planned
    from iotrial_vmlab.labs import kind_of
    from iotrial_vmlab.qemu import accelerator

    places, kind = _places(), kind_of(wish.kind)
    folder = places.labs / wish.name
    planned(wish, kind, folder=folder, image=folder)  # what cannot be is refused before we build
    need(host, "qemu-system-x86_64", "qemu-img", "ssh", "ssh-keygen")
    if (folder / "ssh_config").exists():
        lab = power.named(places, wish.name)
        _same(lab, wish)
        how = accelerator(host, opened(lab.image), places.labs)
        return power.powered(host, lab, lab.nodes, accelerator=how), how
    if folder.exists():  # an `up` was killed before anything ran
        power.down(folder)
    image = built(host, places, output.note, wish.kernel or kind.kernel)
    lab = planned(wish, kind, folder=folder, image=image.folder)
    how = accelerator(host, image, places.labs)
    try:
        power.made(host, lab, image)
        return power.powered(host, lab, lab.nodes, accelerator=how), how
    except BaseException:
        if folder.exists():
            power.down(folder)
        raise


def _same(lab: Lab, wish: LabRequest) -> None:
    if wrong := wish.problem(lab):
        raise UsageError(
            f"there is a lab {lab.name} already, and {wrong}",
            advice=f"First: iotrial vmlab down {lab.name}; or give it another --name.",
        )


@command.command()
@_KERNEL
@common
def build(output: Output, kernel: str | None) -> None:
    """Build the image that labs begin with, as root; `up` does it too.

    \b
    Example:
      sudo IOTRIAL vmlab build
    """
    from iotrial_vmlab.image import built

    with _host("vmlab build") as host:
        image = built(host, _places(), output.note, kernel or STABLE)
    output.document({"image": str(image.folder), "release": image.release})
    output.answer(Text(f"{image.folder}: Linux {image.release}"))


@command.command("list")
@common
def list_labs(output: Output) -> None:
    """List the labs, their nodes, and the kinds there are.

    \b
    Example:
      iotrial vmlab list --json
    """
    from iotrial_vmlab.lab import load
    from iotrial_vmlab.labs import kinds
    from iotrial_vmlab.power import labs, stood

    found, broken = [], []
    for folder in labs(_places()):
        try:
            lab = load(folder)
            found.append((lab, stood(lab)))
        except HostError as error:
            broken.append(error)
    rows = [
        _row(lab)
        | {
            "nodes": [
                _node_row(lab, each.node)
                | {"state": each.state, "pid": each.pid or None, "memory": each.memory}
                for each in nodes
            ]
        }
        for lab, nodes in found
    ]
    there = {name: kind.summary for name, kind in kinds().items()}
    output.document({"labs": rows, "kinds": there, "broken": [str(each) for each in broken]})
    table = TextTable()
    for lab, nodes in found:
        for each in nodes:
            memory = format_bytes(each.memory) if each.memory else ""
            table.add_row(Text(each.node.name, "bold"), each.state, memory, lab.kind)
    if found:
        output.answer(table)
    for each_broken in broken:
        output.answer(Text(str(each_broken)))
    for name, summary in there.items():
        output.answer(Text.assemble("to be had: ", (name, "bold"), f"  {summary}"))


@command.command()
@click.argument("node")
def ssh(node: str) -> NoReturn:
    """A shell on NODE.

    \b
    Example:
      iotrial vmlab ssh disks-1
    """
    _become(*_one(node), ())


@command.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("node")
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(node: str, words: tuple[str, ...]) -> NoReturn:
    """Run a command of WORDS on NODE; its words, and its exit code.

    \b
    Example:
      iotrial vmlab exec disks-1 lsblk -o NAME,SERIAL
    """
    _become(*_one(node), words)


@command.command(short_help="Cut the power of NODE, or of a whole lab.")
@click.argument("node")
@common
def cut(output: Output, node: str) -> None:
    """Cut the power of NODE, or of a whole lab: what it had not written is lost.

    \b
    Example:
      iotrial vmlab cut disks-1
    """
    from iotrial_vmlab.power import cut as off

    _each(output, node, off, "off")


@command.command()
@click.argument("node")
@common
def pause(output: Output, node: str) -> None:
    """Pause the processors of NODE; `resume` continues them.

    \b
    Example:
      iotrial vmlab pause disks-1
    """
    from iotrial_vmlab.power import pause as stop

    _each(output, node, stop, "paused")


@command.command()
@click.argument("node")
@common
def resume(output: Output, node: str) -> None:
    """Resume a paused NODE.

    \b
    Example:
      iotrial vmlab resume disks-1
    """
    from iotrial_vmlab.power import resume as go_on

    _each(output, node, go_on, "running")


@command.command()
@click.argument("node")
@click.argument("state", type=click.Choice(["up", "down"]))
@click.option(
    "--of",
    "which",
    type=click.Choice(["lab", "lab2", "ssh"]),
    default="lab",
    show_default=True,
    help="A network between nodes, or the way from here.",
)
@common
def link(output: Output, node: str, state: Any, which: Any) -> None:  # noqa: ANN401 (click's choices)
    """Take down a link of NODE, or bring it up: STATE.

    \b
    Example:
      iotrial vmlab link disks-1 down
      iotrial vmlab link disks-1 down --of ssh
    """
    from iotrial_vmlab.power import link as plug

    _each(output, node, lambda lab, nodes: plug(lab, nodes, which=which, state=state), state)


@command.command(short_help="End the labs NAME; nothing of them stays.")
@click.argument("names", metavar="NAME", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every lab of this user.")
@common
def down(output: Output, names: tuple[str, ...], *, every: bool) -> None:
    """End the labs NAME: their processes are killed, their disks and folders removed.

    \b
    Example:
      iotrial vmlab down disks
    """
    from iotrial_vmlab import power
    from iotrial_vmlab.image import sweep

    places = _places()
    if bool(names) == every:
        raise UsageError("name labs, or say --all", advice="Such as: iotrial vmlab down disks")
    chosen = [folder.name for folder in power.labs(places)] if every else names
    with _host("vmlab down") as host:
        for name in chosen:
            _there(places, name)
            with host.lock(str(places.locks / name)):
                power.down(places.labs / name)
        sweep(host, places)
    output.document({"down": list(chosen)})
    for name in chosen:
        output.answer(Text(f"{name} is down; nothing of it is left"))


# --- what they share ---------------------------------------------------------------------------


def _places() -> LabFolders:
    from iotrial_vmlab.lab import places

    return places(os.geteuid(), os.environ)


@contextmanager
def _host(purpose: str) -> Iterator[LocalHost]:
    """This machine; a polite stop (SIGTERM, SIGHUP) is as Ctrl-C: what was begun is ended."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield LocalHost(purpose=purpose)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _there(places: LabFolders, name: str) -> None:
    """Raises UsageError where there is no such lab; one that is not whole is one."""
    from iotrial_vmlab.lab import checked_name
    from iotrial_vmlab.power import named

    if not (places.labs / checked_name(name)).is_dir():
        named(places, name)


def _one(words: str) -> tuple[Lab, LabNode]:
    from iotrial_vmlab.power import meant, running

    lab, nodes = meant(_places(), words)
    if len(nodes) != 1:
        names = ", ".join(node.name for node in lab.nodes)
        raise UsageError(f"{words} has several nodes", advice=f"Name one: {names}")
    if nodes[0].name not in running(lab):
        raise HostError(f"{words} is off", advice=f"Boot it: iotrial vmlab up {lab.kind}")
    return lab, nodes[0]


def _become(lab: Lab, node: LabNode, words: tuple[str, ...]) -> NoReturn:
    """ssh in our place: its terminal, its signals and its exit code are the user's."""
    command = ["ssh", "-F", str(lab.ssh_config), node.name]
    os.execvp("ssh", [*command, *(("--", shlex.join(words)) if words else ())])  # noqa: S606


def _each(
    output: Output, words: str, act: Callable[[Lab, tuple[LabNode, ...]], None], state: str
) -> None:
    from iotrial_vmlab.power import meant, running

    lab, nodes = meant(_places(), words)
    up = running(lab)
    off = [node.name for node in nodes if node.name not in up]
    if off and state != "off":
        raise HostError(f"{', '.join(off)}: off", advice=f"Boot it: iotrial vmlab up {lab.kind}")
    act(lab, nodes)
    output.document({"nodes": [node.name for node in nodes], "state": state})
    for node in nodes:
        output.answer(Text(f"{node.name}: {state}"))


def _row(lab: Lab) -> dict[str, object]:
    return {
        "name": lab.name,
        "kind": lab.kind,
        "ssh_config": str(lab.ssh_config),
        "nodes": [_node_row(lab, node) for node in lab.nodes],
    }


def _node_row(lab: Lab, node: LabNode) -> dict[str, object]:
    return {"name": node.name, "ssh": lab.way(node), "address": node.address, "port": node.port}


def _entries(lab: Lab) -> str:
    """What a study says of the nodes."""
    return "\n".join(f'[hosts.{node.name}]\nssh = "{lab.way(node)}"' for node in lab.nodes)

"""The fake host's queues beside those of Debian's kernels, write by write, on new loop devices.

With IOTRIAL_GOLDEN=write the first of what they answered become the recordings that the fake is
held against where no node boots.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import answers
from imitation import KERNELS, differences
from nodes import Node
from writes import any_writes, every_write, paths

pytestmark = pytest.mark.timeout(1200)
RECORDED = 3
"""Runs of random writes."""


def answered(node: Node, runs: list[list[tuple[str, str]]]) -> dict[str, Any]:
    """The kernel's ``release``, and what it answered to the ``runs``."""
    program, asked = "/root/answers.py", "/root/asked.json"
    node.host.save(program, Path(answers.__file__).read_bytes())
    node.host.save(asked, json.dumps({"names": paths(), "runs": runs}).encode())
    told: dict[str, Any] = json.loads(
        node.do("sh", "-c", f"python3 {program} <{asked}", within=900)
    )
    assert [len(run["steps"]) for run in told["runs"]] == [len(run) for run in runs]
    return told


def kernel_of(told: dict[str, Any]) -> str:
    return ".".join(told["release"].split(".")[:2])


def check(told: dict[str, Any]) -> None:
    kernel = kernel_of(told)
    assert kernel in KERNELS, told["release"]
    assert [found for run in told["runs"] if (found := differences(run, kernel))] == []


def record(told: dict[str, Any]) -> None:
    """For tests/unit/test_fake_queues.py: one step a line."""
    texts = []
    for run in told["runs"][:RECORDED]:
        steps = ",\n".join(map(json.dumps, run["steps"]))
        first = f'"files": {json.dumps(run["files"])},\n"new": {json.dumps(run["new"])}'
        texts.append(f'{{{first},\n"steps": [\n{steps}\n]}}')
    whole = f'{{"release": {json.dumps(told["release"])},\n"runs": [\n' + ",\n".join(texts)
    folder = Path(__file__).parents[1] / "data" / "kernels"
    (folder / f"{kernel_of(told)}.json").write_text(f"{whole}\n]}}\n")


@pytest.mark.vm
def test_the_fake_answers_as_the_stable_kernel(node: Node) -> None:
    check(answered(node, [any_writes(7, 150)]))


@pytest.mark.vm
@pytest.mark.parametrize("kernel", ["node", "newer_node"])
def test_the_fake_answers_as_the_kernels_of_debian(
    request: pytest.FixtureRequest, kernel: str
) -> None:
    """Random writes, and every value into every file under every scheduler."""
    random = [any_writes(seed, 400) for seed in range(1, RECORDED + 1)]
    told = answered(request.getfixturevalue(kernel), [*random, *every_write()])
    if os.environ.get("IOTRIAL_GOLDEN") == "write":
        record(told)
    check(told)

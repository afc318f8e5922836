"""``[targets.NAME]`` of a study file: what the I/O is aimed at, and how it is made.

A part of :mod:`iotrial.plan.schema`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from iotrial.plan.values import Argv, Size


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LoopTable(_Table):
    """A loop device that iotrial makes over a file, and removes again."""

    size: Size = Field(description="Size of the backing file.", examples=["1GiB"])
    directory: str = Field(
        "",
        description="Folder for the backing file; left out: iotrial's own under /var/tmp.",
        examples=["/srv/scratch"],
    )


class MountTable(_Table):
    """A file system that iotrial mounts at the target's directory, and unmounts again."""

    source: str = Field(description="What mount(8) is given.", examples=["srv:/export"])
    type: str = Field(description="File system type.", examples=["nfs", "ext4"])
    options: str = Field("", description="Mount options.", examples=["rsize=65536,noatime"])


class TargetTable(_Table):
    """What the I/O is aimed at: one of device, devices, file, directory, loop, targets."""

    device: str = Field(
        "",
        description="A block device: a path that cannot move, or the serial, WWN or UUID itself.",
        examples=["/dev/disk/by-id/nvme-X", "S4X1N0M123456", "/dev/loop7"],
    )
    devices: list[str] = Field(
        default_factory=list,
        description="Several block devices loaded as one.",
        examples=[["/dev/sdb", "/dev/sdc"]],
    )
    file: str = Field(
        "",
        description="A file, made for the run at `size` and removed afterwards.",
        examples=["/data/iotrial.dat"],
    )
    size: Size | None = Field(None, description="Size of the file.", examples=["4GiB"])
    directory: str = Field(
        "",
        description="A folder the load makes its files in. They are removed; what was there stays.",
        examples=["/mnt/nas"],
    )
    loop: LoopTable | None = Field(
        None, description="A loop device made for the study.", examples=[{"size": "1GiB"}]
    )
    targets: list[str] = Field(
        default_factory=list,
        description="Other targets that are loaded together as this one.",
        examples=[["array1", "array2"]],
    )
    host: str = Field("", description="Which of [hosts] it is on.", examples=["box7"])
    hosts: str | list[str] = Field(
        "", description="Several hosts that each have it.", examples=["box[1-4]"]
    )
    destroy: str | list[str] = Field(
        "",
        description="Serial or WWN of the device (of each of several devices), or the path of a "
        "file that exists: says that its content may be lost.",
        examples=["S4X1N0K123456", "/data/old.dat"],
    )
    mount: MountTable | None = Field(
        None,
        description="Mounted at the directory for the study, and unmounted after it.",
        examples=[{"source": "srv:/export", "type": "nfs"}],
    )
    create: list[Argv] = Field(
        default_factory=list,
        description="Commands that make the target, which must not be there before; owed until "
        "`remove` ran.  A device made so may be armed by its path.",
        examples=[[["mdadm", "--create", "/dev/md0", "--level=1"]]],
    )
    remove: Argv | list[Argv] = Field(
        default_factory=list,
        description="Command or commands that remove it again.",
        examples=[["mdadm", "--stop", "/dev/md0"]],
    )
    filesystem: str = Field(
        "",
        description="Made on the armed device or loop device, mounted, and wiped afterwards: "
        "ext2, ext3, ext4, xfs, btrfs.",
        examples=["ext4"],
    )

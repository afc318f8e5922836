"""How a study says of a configuration file what it holds, and how its value is read back."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from iotrial.plan.values import Argv


class KnobTable(BaseModel):
    """A setting that lives in a configuration file; used as tunable `file.NAME`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    file: str = Field(
        description="The file, given back byte for byte at the end.", examples=["/etc/client.conf"]
    )
    content: str = Field(
        description="What it holds; `{value}` stands for the level.", examples=["rsize {value}\n"]
    )
    reload: Argv = Field(
        default_factory=list,
        description="Command that makes it count.",
        examples=[["systemctl", "reload", "client"]],
    )
    read: Argv = Field(
        min_length=1,
        description="Command that prints the value in force.",
        examples=[["client", "show", "rsize"]],
    )
    field: str = Field(
        "",
        description="Of what it prints, the first word behind this at the beginning of a line; "
        "left out: all of it.",
        examples=["rsize:"],
    )

"""The table ``[inventory]`` of a study file: hosts that another file already names."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from iotrial.plan.values import Duration


class InventoryTable(BaseModel):
    """Hosts that ssh's own configuration or an Ansible inventory names, as if they stood in
    `[hosts]`.

    Of several, those count that a target names; where none does, all that are chosen here.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    ssh_config: str = Field(
        "",
        description="A configuration of ssh(1); relative to the study, or beginning with `~/`.",
        examples=["~/.ssh/config"],
    )
    ansible: str = Field(
        "",
        description="An Ansible inventory, INI or YAML; relative to the study, or beginning with "
        "`~/`.",
        examples=["hosts.ini"],
    )
    group: str | list[str] = Field(
        "", description="Of an Ansible inventory: these groups only.", examples=["storage"]
    )
    hosts: str | list[str] = Field(
        "",
        description="These hosts only: names with ranges, or with `*` and `?`. "
        "Of a configuration of ssh it must be said.",
        examples=["box[1-4]", ["box*", "array1"]],
    )
    lease: Duration = Field(
        30.0,
        ge=5,
        le=3600,
        description="So long after the link to one is lost, it puts everything back itself.",
        examples=["30s"],
    )

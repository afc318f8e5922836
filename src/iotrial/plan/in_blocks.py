"""A study in a number of blocks that was chosen before it began, in place of that of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iotrial.model.study import Study

FIXED = ("full", "fraction", "one-at-a-time")
"""Kinds of design whose blocks are a number fixed beforehand, unless they stop when decided."""


def has_fixed_blocks(study: Study) -> bool:
    """Whether another number of blocks gives the same study, only smaller or larger."""
    design = study.design
    return design.kind in FIXED and design.stop == "blocks" and not (study.stages or study.aa)


def in_blocks(study: Study, blocks: int) -> Study:
    """The study in so many blocks: of a race all treatments in each, to the end."""
    kind = study.design.kind if study.design.kind in FIXED else "full"
    design = replace(study.design, kind=kind, blocks=blocks, stop="blocks", chosen=blocks)
    return replace(study, design=design)


def noted(study: Study) -> dict[str, Any]:
    """The chosen number for JSON, as ``blocks``; empty where the file's stands."""
    return {"blocks": study.design.chosen} if study.design.chosen else {}


def restored(study: Study, head: Mapping[str, Any]) -> Study:
    """The study with what :func:`noted` said."""
    return in_blocks(study, head["blocks"]) if head.get("blocks") else study

"""Three hosts have the array at once."""

from dataclasses import replace

from iotrial.checks.cluster_md import assemble
from iotrial.checks.clustered import NEEDS
from iotrial.model.check import Case

ORDER = 21
CASE = Case(
    "assemble-on-three",
    "Three hosts assemble it, and each reads what the others write",
    assemble.steps,
    replace(NEEDS, hosts=3),
    limit=1200,
    source="functional test of 2015, 2.2",
)

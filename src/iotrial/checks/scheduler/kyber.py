"""The scheduler kyber and every setting of its queue."""

from iotrial.checks.knob_round import takes_every_setting

CASE = takes_every_setting("kyber")

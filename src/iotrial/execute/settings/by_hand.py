"""What a person changed, as a debt: seen by the study's own command, paid by the person alone."""

from __future__ import annotations

from iotrial.execute.settings.journal import MadeDebt
from iotrial.model.host import Host

KIND = "by-hand"
"""What such a debt is called in the journal: its plan holds ``name``, ``was`` (what the command
said at the start) and the words of the command by their number."""


def verified(host: Host, argv: tuple[str, ...]) -> str:
    """What a verifying command prints, blanks normalised; its complaint where it fails."""
    done = host.run(argv)
    return " ".join(done.text.split()) if done.exit == 0 else f"({done.complaint})"


def still_owed(host: Host, debt: MadeDebt) -> str:
    """Why what a person changed is still owed; '' when it stands as it was."""
    said = verified(host, debt.argv)
    was = str(debt.plan["was"])
    return "" if said == was else f"it is {said!r} now, and only a person can set {was!r} again"

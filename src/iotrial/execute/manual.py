"""By hand: what only a person can change — firmware, a filer's head, a switch, all other clients.

Such a level is asked for, waited for, and verified by the study's own command where it names one.
What the command said before the first change is owed like a setting: asked for again at the end,
named by ``iotrial status`` and ``restore`` until it is so.  Without a command nobody knows what was
there before; then the report says which level it was left at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iotrial.errors import RefusedError
from iotrial.execute.interruption import Interruption
from iotrial.execute.session import HostSession
from iotrial.execute.settings.debris import KIND, verified
from iotrial.execute.settings.journal import ResourceUndo, numbered
from iotrial.model.event import Ask, Message, PersonAsked, Tell
from iotrial.model.study import Factor
from iotrial.model.trial import Trial
from iotrial.model.tunable import Setting


@dataclass
class ManualLevels:
    """The levels that a person sets during a run.  ``now`` are those that stand, by factor;
    ``former`` what the verifying commands said at the start."""

    session: HostSession
    tell: Tell
    ask: Ask | None
    interruption: Interruption
    now: dict[str, str] = field(default_factory=dict)
    former: dict[str, str] = field(default_factory=dict)

    @property
    def factors(self) -> tuple[Factor, ...]:
        return tuple(factor for factor in self.session.study.factors if factor.kind == "manual")

    def begin(self) -> None:
        """Look what stands, and owe it.  Raises RefusedError where nobody can be asked."""
        if self.factors and self.ask is None:
            raise RefusedError(
                f"factor {self.factors[0].name} is set manually, which needs a terminal",
                advice="Run the study on a terminal (in tmux or screen if it is long).",
            )
        for factor in self.factors:
            if factor.verify:
                self.former[factor.name] = said = verified(self.session.host, factor.verify)
                self.now[factor.name] = said
                plan = {"name": f"{factor.name} = {said}", "was": said, **numbered(factor.verify)}
                self.session.journal.owe_made(ResourceUndo(KIND, plan))

    def take(self, trial: Trial) -> None:
        """Have a trial's levels set by hand; gives back when they are.  Raises Interrupted."""
        wanted = dict(trial.treatment)
        for factor in self.factors:
            self._have(factor, wanted[factor.name])

    def observed(self) -> tuple[Setting, ...]:
        """What the verifying commands say now: proof in the trial's record, as for settings."""
        return tuple(
            Setting("", f"manual.{factor.name}", verified(self.session.host, factor.verify))
            for factor in self.factors
            if factor.verify
        )

    def give_back(self) -> None:
        """Ask for what stood at the start.  Raises Interrupted; it is owed then."""
        for factor in self.factors:
            former = self.former.get(factor.name)
            if former is not None:
                self._have(factor, former)
            elif factor.name in self.now:
                self.tell(
                    Message(f"{factor.name} stays at {self.now[factor.name]}, its last level")
                )

    def _have(self, factor: Factor, level: str) -> None:
        if self.now.get(factor.name) == level or self.ask is None:
            return
        ask = f"{factor.subject.replace('{level}', level)}  [{factor.name} = {level}]"
        while True:
            self.tell(PersonAsked(ask))
            self.ask(ask, lambda: bool(self.interruption.signal))
            self.interruption.check()
            if not factor.verify:
                break
            said = verified(self.session.host, factor.verify)
            if said == level:
                break
            ask = f"`{' '.join(factor.verify)}` says {said!r}, not {level!r}. {factor.subject}"
            ask = ask.replace("{level}", level)
        self.now[factor.name] = level


@dataclass(frozen=True, slots=True)
class TrialLimits:
    """What a trial lives under: who is told of it, who may stop it, and the levels that only a
    person sets."""

    tell: Tell
    interruption: Interruption
    hands: ManualLevels

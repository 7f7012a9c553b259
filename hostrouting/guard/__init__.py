"""The guard's decisions: when to look, what may be repaired, what to report. Values and functions, no actions.

bucket      how much may be spent now
pace        when the next look is due
fights      other programs that keep undoing a repair
state       what the guard knows, as JSON
figures     the same for a Prometheus collector
"""

from hostrouting.guard.fights import Fight, Fights, Repair
from hostrouting.guard.figures import figures
from hostrouting.guard.pace import Pace
from hostrouting.guard.state import GUARD_SCHEMA, Look, Problem, State

__all__ = ["GUARD_SCHEMA", "Fight", "Fights", "Look", "Pace", "Problem", "Repair", "State", "figures"]

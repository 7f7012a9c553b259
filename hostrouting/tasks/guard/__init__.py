"""The guard's decisions: when to look, what may be repaired, what to report. Values and functions, no actions.

look        what one look found and repaired
bucket      how much may be spent now
pace        when the next look is due
fights      other programs that keep undoing a repair
state       what the guard knows, as JSON
figures     the same for a Prometheus collector
"""

import phases

TYPE_CHECKING = False  # as in the package above
if TYPE_CHECKING:
    from hostrouting.tasks.guard.look import Look, Problem, Repair
    from hostrouting.tasks.guard.pace import Fight, Fights, Pace
    from hostrouting.tasks.guard.state import State, figures

__all__ = ["Fight", "Fights", "Look", "Pace", "Problem", "Repair", "State", "figures"]

# The module of each name; it is imported when the name is first used, because most commands need only a look.
_HOMES = {"pace": ("Fight", "Fights", "Pace"), "state": ("figures", "State"), "look": ("Look", "Problem", "Repair")}

if not TYPE_CHECKING:  # if a type checker saw it, it would accept any name
    __getattr__ = phases.lazily(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

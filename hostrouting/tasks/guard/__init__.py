"""The guard keeps the routing of a host right. These names are its decisions: values and functions, no actions.

look      what one look found and repaired
pace      when the next look is due, and what may be repaired
state     what the guard knows, as JSON and for a Prometheus collector
loop      Guard, the task that waits, looks and repairs
service   InstallGuard, the task that installs the service that runs Guard
"""

import phases

TYPE_CHECKING = False  # as in the package above
if TYPE_CHECKING:
    from hostrouting.tasks.guard.look import Look, Repair
    from hostrouting.tasks.guard.pace import Fight, Fights, Pace
    from hostrouting.tasks.guard.state import State, figures

__all__ = ["Fight", "Fights", "Look", "Pace", "Repair", "State", "figures"]

# The module of each name; it is imported when the name is first used, because most commands need only a look.
_HOMES = {"pace": ("Fight", "Fights", "Pace"), "state": ("figures", "State"), "look": ("Look", "Repair")}

if not TYPE_CHECKING:  # if a type checker saw it, it would accept any name
    __getattr__ = phases.lazily(__name__, _HOMES, globals())


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

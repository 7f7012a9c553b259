"""The systemd of a booted system, as the product asks it: through `systemctl` and `journalctl`,
which run inside.
"""

from hostrouting.host.systemd import SystemdManager
from hostrouting.kernel.programs import Ended
from tests.support.systemd import System


class InsideManager(SystemdManager):
    """The systemd inside this system."""

    def __init__(self, system: System) -> None:
        """Use a system that is booted."""

        def run(*words: str, **_: object) -> Ended:
            done = system.run(*words)
            return Ended(done.returncode, done.stdout, done.stderr)

        super().__init__(run=run)

    def is_running(self) -> bool:
        """See Manager. It is booted before it is asked."""
        return True

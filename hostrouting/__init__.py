"""Make a host's routing right before its systemd-nspawn machine starts, and prove it."""

import phases
from hostrouting.errors import ForeignPhases, HostRoutingError

__version__ = "0.1.0"
__all__ = ["ForeignPhases", "HostRoutingError", "__version__"]

# `phases` belongs to someone else on the package index, whose files would overwrite ours.
if getattr(phases, "__distribution__", None) != "hostrouting":
    raise ForeignPhases(found=str(getattr(phases, "__file__", None) or "an unknown place"))

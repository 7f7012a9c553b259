"""What a host answers about what is installed on it, for `hostrouting status`, and the page and the
metrics that say it. Nothing is changed here.
"""

from hostrouting.status.metrics import metric_lines
from hostrouting.status.page import status_lines
from hostrouting.status.status import HostState, HostStatus, find_status

__all__ = ["find_status", "status_lines", "metric_lines", "HostStatus", "HostState"]

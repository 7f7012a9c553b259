"""What a host answers about what is installed on it, and the page that says it, for `hostrouting
status`.

`answers` asks each part of the host, `findings` puts what is wrong into one order, whose first says
the state, `status` has all of that as one value, and `page` and `metrics` make lines of it. Nothing
is changed here.
"""

from hostrouting.status.answers import find_status
from hostrouting.status.findings import State
from hostrouting.status.metrics import metric_lines
from hostrouting.status.page import status_lines
from hostrouting.status.status import Status

__all__ = ["find_status", "status_lines", "metric_lines", "Status", "State"]

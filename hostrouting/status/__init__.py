"""What a host answers about what is installed on it, and the page that says it, for `hostrouting
status`. Nothing is changed here.
"""

from hostrouting.status.page import status_lines
from hostrouting.status.status import State, Status, find_status

__all__ = ["find_status", "status_lines", "Status", "State"]

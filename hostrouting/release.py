"""The version of this package and its date. Here because every module may import this one."""

__version__ = "1.0.0rc1"
WRITTEN = "2026-11-22"
"""The date on the manual page: that of the release, once it is in CHANGELOG.md."""

"""The name and the version of this program. Here because every module may import this one."""

PROGRAM = "hostrouting"
__version__ = "1.0.0rc1"

"""The version of this package. Here because every module may import this one."""

__version__ = "1.0.0rc1"

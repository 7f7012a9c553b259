"""The version of this package. Here because every module may import this one."""

__all__ = ["__version__"]

__version__ = "1.0.0rc1"

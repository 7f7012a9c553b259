"""The version of this package. Here because every module may import this one."""

__all__ = ["__version__"]

__version__ = "0.1.0"

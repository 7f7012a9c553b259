"""Whether an error means that this process lacks a permission, whichever edge raised it.

Here: that question. Not here: what follows from the answer (`cli.failure`, `preflight`).
"""

import errno

from hostrouting.errors import EbtablesNotPermitted, FileError, NftNotPermitted, NotPermitted

__all__ = ["is_denied"]

_DENIED = {errno.EACCES, errno.EPERM}


def is_denied(error: BaseException | None) -> bool:
    """Whether the error is "permission denied", or was caused by it."""
    if error is None:
        return False
    denied = isinstance(error, NotPermitted | NftNotPermitted | EbtablesNotPermitted) or (
        isinstance(error, FileError) and error.errno in _DENIED
    )
    return denied or is_denied(error.__cause__)

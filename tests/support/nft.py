"""The requirements of a test with the real nft: the program and root."""

import os
import shutil

import pytest

__all__ = ["needs_nft"]

needs_nft = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None,
    reason="nftables in a private network namespace requires root and the program nft",
)

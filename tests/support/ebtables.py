"""The requirements of a test with the real ebtables: root, and the programs of the nft backend."""

import os
import shutil

import pytest

__all__ = ["needs_ebtables"]

needs_ebtables = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ebtables-nft-save") is None,
    reason="ebtables in a private network namespace requires root and the programs ebtables-nft of the package iptables",
)

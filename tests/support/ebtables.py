"""What a test with the real ebtables needs: root, and the programs of the backend that keeps its rules in nf_tables."""

import os
import shutil

import pytest

__all__ = ["needs_ebtables"]

needs_ebtables = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ebtables-nft-save") is None,
    reason="ebtables in a private network namespace takes root and the programs ebtables-nft of the package iptables",
)

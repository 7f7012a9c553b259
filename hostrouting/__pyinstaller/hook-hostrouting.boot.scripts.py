"""A frozen program needs the boot scripts, which `hostrouting.boot.scripts` reads."""

from pathlib import Path

_FOLDER = "hostrouting/boot/assets"

datas = [(str(Path(__file__).resolve().parents[2] / _FOLDER), _FOLDER)]
"""Folders: where each is, and where it will be in the program."""

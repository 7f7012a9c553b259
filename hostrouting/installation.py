"""Checks that the package `phases` that Python finds is the one from hostrouting, and gives the remedy if not.

Here: the check, the remedy and the error. Not here: anything else about `phases`. Another project owns the name on the
package index, and its files would overwrite ours.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` would take a third of the time of a command that only prints its usage
if TYPE_CHECKING:
    from hostrouting.errors import ForeignPhases

_OURS = "hostrouting"


def require_own_phases() -> None:
    """Raise ForeignPhases, with the command that repairs it, if Python finds another project's `phases`."""
    if (foreign := foreign_phases()) is not None:
        raise foreign


def foreign_phases() -> ForeignPhases | None:
    """The error if the `phases` that Python finds is missing or not ours; None if it is ours."""
    try:
        import phases  # noqa: PLC0415  another project's package may raise anything

        if getattr(phases, "__distribution__", None) == _OURS:
            return None
        found = str(getattr(phases, "__file__", None) or "")
    except Exception:  # noqa: BLE001  another project's package may raise anything
        found = _where()
    from hostrouting.errors import ForeignPhases  # noqa: PLC0415  only a fault needs it

    return ForeignPhases(found, _remedy(found))


def _where() -> str:
    """The file of a `phases` that cannot be imported; empty if there is none."""
    from importlib.util import find_spec  # noqa: PLC0415  only a fault needs it

    spec = find_spec("phases")
    return "" if spec is None else spec.origin or ""


def _remedy(found: str) -> str:
    """The remedy: reinstall hostrouting if its files were overwritten or are missing, else remove the other package."""
    import os  # noqa: PLC0415  only a fault needs it
    import sys  # noqa: PLC0415  as above
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  as above

    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "phases", "__init__.py")
    if not found or os.path.realpath(found) == os.path.realpath(beside):
        return f"run: {sys.executable} -m pip install --force-reinstall --no-deps {_source()}"
    try:
        files = distribution("phases").files or ()
    except PackageNotFoundError:
        files = ()
    if any(os.path.realpath(str(file.locate())) == os.path.realpath(found) for file in files):
        return f"run: {sys.executable} -m pip uninstall --yes phases"
    return f"it hides {beside}: rename it, or remove its directory from Python's path"


def _source() -> str:
    """The source that hostrouting was installed from, as an argument for pip."""
    import json  # noqa: PLC0415  only a fault needs it
    import shlex  # noqa: PLC0415  as above
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  as above

    try:
        direct = json.loads(distribution(_OURS).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        direct = {}
    url = direct.get("url", _OURS)
    return f"{'--editable ' if direct.get('dir_info', {}).get('editable') else ''}{shlex.quote(url)}"

"""What the tests under a real systemd have in common: from which trees they boot."""

import pytest

from tests.support.systemd import trees


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that is marked `releases` in each of the trees that HOSTROUTING_TREES names."""
    roots = trees()
    if not roots or not metafunc.definition.get_closest_marker("releases"):
        return
    for root in roots:
        if not (root / "usr/bin/systemctl").exists():
            raise pytest.UsageError(
                f"HOSTROUTING_TREES: there is no systemd in {root}; install it: make roots"
            )
    metafunc.parametrize("_release", roots, ids=[root.name for root in roots], indirect=True)


@pytest.fixture(autouse=True)
def _release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(request, "param"):
        monkeypatch.setenv("HOSTROUTING_TREE", str(request.param))

"""hostrouting.gate.unit_names: as systemd.unit(5) takes a name apart."""

import pytest

from hostrouting.gate.unit_names import instance_pattern, is_template, template_of, unused_instance


def test_a_template() -> None:
    """Nothing stands between its first @ and the last dot."""
    assert is_template("a.b@.service")
    assert template_of("a.b@.service") == "a.b@.service"
    assert unused_instance("a.b@.service") == "a.b@hostrouting-probe.service"
    assert instance_pattern("a.b@.service") == "a.b@*.service"


@pytest.mark.parametrize(
    "unit", ["a@b.service", "a@b.c.service", "a@.b.service", "a@b@.service", "a.service"]
)
def test_other_units(unit: str) -> None:
    """An instance is what stands between the two; it stands for itself."""
    assert template_of(unit) == ("a@.service" if "@" in unit else unit)
    assert not is_template(unit)
    assert unused_instance(unit) == instance_pattern(unit) == unit

"""The forms for issues have what GitHub requires of a form."""

from pathlib import Path

import pytest

from tests.support.manifests import manifests_in

FORMS = Path(__file__).resolve().parent.parent / ".github" / "ISSUE_TEMPLATE"
INPUTS = {"textarea", "input", "dropdown", "checkboxes"}
EVERY = sorted(path for path in FORMS.glob("*.yml") if path.name != "config.yml")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_a_form(path: Path) -> None:
    """A form has a name, a description and a body; each field has a label and an id of its own."""
    [form] = manifests_in(path)
    assert (
        {"name", "description", "body"}
        <= form.keys()
        <= {"name", "description", "body", "labels", "title", "assignees"}
    )
    fields = [node for node in form["body"] if node["type"] != "markdown"]
    assert fields
    assert {it["type"] for it in fields} <= INPUTS
    assert len({it["id"] for it in fields}) == len(fields)
    for field in fields:
        assert field["attributes"]["label"]
        assert field.keys() <= {"type", "id", "attributes", "validations"}
        assert field["attributes"].keys() <= {"label", "description", "render", "placeholder", "value", "options"}


def test_the_choice_of_forms() -> None:
    """Whoever needs none of them can write without one."""
    [config] = manifests_in(FORMS / "config.yml")
    assert config == {"blank_issues_enabled": True}
    assert len(EVERY) == 3

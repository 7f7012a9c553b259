"""Elements of HTML. Whatever is put into one is text, unless it was made here: no value can become markup.

Here: elements, and a template that is filled with them. Not here: any page.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from phases.text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Markup", "element", "fill", "joined"]

_MARK = re.compile(r"\{\{([a-z-]+)\}\}")


class Markup(str):
    """Text that is markup, made by this module."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str) -> Markup:
    """An element with these children, of which only Markup is markup; `class_` and `aria_label` are attributes, too."""
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{_as_text(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{told}>{joined(children, between='')}</{name}>")


def joined(pieces: Iterable[str], *, between: str = "\n") -> Markup:
    """The pieces one after the other, of which only Markup is markup."""
    return Markup(between.join(it if isinstance(it, Markup) else _as_text(it) for it in pieces))


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with a value in place of each mark, such as {{title}}. A mark in a value stays as it is."""
    return _MARK.sub(lambda found: joined([values[found[1]]]), template)


def _as_text(value: str) -> str:
    """The value as text, also inside quotes; a character that is not printable is shown as an escape."""
    return html.escape(escaped(value), quote=True)

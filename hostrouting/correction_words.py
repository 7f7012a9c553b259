"""What to change in a configuration, as sentences: the routes to add, the entries to delete, and why.

Every message about a repair has these words, so that all of them ask for the same. Here: sentences. Not here: what has
to be changed (`correction`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostrouting.phrases import spoken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hostrouting.uplink import DesiredRoute

__all__ = ["action_sentence", "contested_clause", "deletion_lines", "entries_name"]

_PASTED = 20  # the number of routes that are printed as JSON; a line in the journal has a maximum length


def action_sentence(
    routes: Sequence[dict[str, Any]],
    *,
    where: str,
    replaced: Sequence[DesiredRoute] = (),
    contested: Sequence[DesiredRoute] = (),
) -> str:
    """A sentence: which routes to add to a configuration, as JSON values, and which entries of it to delete.

    `where` says where the routes are if they are too many to print.
    """
    parts: list[str] = []
    if len(routes) > _PASTED:
        parts.append(f"add {len(routes)} routes to staticRoutes.routes: {where}")
    elif routes:
        import json  # noqa: PLC0415  only a finding needs it

        parts.append(f"add to staticRoutes.routes: {json.dumps(list(routes))}")
    parts += [text[0].lower() + text[1:-1] for text in deletion_lines(replaced, contested, "staticRoutes.routes")]
    return "; ".join(parts)


def deletion_lines(replaced: Sequence[DesiredRoute], contested: Sequence[DesiredRoute], config: str) -> Iterator[str]:
    """Sentences: which entries to delete from a configuration, and why; `config` names it."""
    if replaced:
        takes = "the new one takes its" if len(replaced) == 1 else "the new ones take their"
        yield f"In {config}, delete the present {entries_name(replaced)}: {takes} place."
    if contested:
        yield f"In {config}, delete the {entries_name(contested)}: {contested_clause(contested)}."


def contested_clause(contested: Sequence[DesiredRoute]) -> str:
    """A clause: why these entries of a configuration cannot be installed."""
    if len(contested) == 1:
        return "another program's route has this destination and metric, and hostrouting leaves that route as it is"
    return "other programs' routes have these destinations and metrics, and hostrouting leaves those as they are"


def entries_name(wishes: Sequence[DesiredRoute]) -> str:
    """A phrase that names entries of a configuration: destination, and metric unless it is 0."""
    names = [f"{it.destination}{f' metric {it.metric}' if it.metric else ''}" for it in wishes]
    return f"{'entry' if len(names) == 1 else 'entries'} for {spoken(names, most=_PASTED)}"

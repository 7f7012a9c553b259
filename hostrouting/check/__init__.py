"""See docs/architecture.md."""

__all__: list[str] = []

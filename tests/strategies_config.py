"""The strategies for configurations, under the name by which the tests of this repository know them."""

from hostrouting.testing.config_strategies import configs, json_values, near_routes, near_texts, scalars

__all__ = ["configs", "json_values", "near_routes", "near_texts", "scalars"]

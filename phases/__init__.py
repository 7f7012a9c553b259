"""A small runner for bootstrap steps. It has never heard of networks."""

__distribution__ = "hostrouting"

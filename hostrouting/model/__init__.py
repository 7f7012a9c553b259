"""The parts of a host's routing as frozen values, and how values are read from JSON; no decisions about them."""

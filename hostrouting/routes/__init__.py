"""The static routes of hostrouting: which device and gateway each gets, which changes that needs,
and how these are made.
"""

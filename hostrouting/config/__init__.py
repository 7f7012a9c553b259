"""The operator's configuration, fully checked.

settings         every setting with its rules, as frozen classes; reading and writing them: JSON, mapping, file
cni              the devices and the refusing routes of known CNIs, as tables
"""

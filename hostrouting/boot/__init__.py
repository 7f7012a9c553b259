"""What every boot needs: the program and the units that set up the routing again, and the drop-ins
that hold units back.
"""

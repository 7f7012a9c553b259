"""What every boot needs: the scripts and units that set up the routing again, and the gate that
holds units back.
"""

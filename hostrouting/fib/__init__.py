"""What Linux does with a packet, computed from the rules and routes of a snapshot."""

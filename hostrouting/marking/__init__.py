"""What can mark packets on a host, so that a rule by mark (`fwmark`) selects them; and IPsec policies for them.

setter           the values: a rule that sets marks, which marks it can set, and whether that changes a route
chains           which chains run at which hooks
nft_rules        rules of nftables; iptables_rules: of iptables; policies: IPsec policies
looking          the programs that list them; loaded when marks are looked for
"""

from hostrouting.marking.setter import ALL_BITS, Effect, Hook, IpsecPolicy, Marking, MarkingOf, MarkSetter

__all__ = ["ALL_BITS", "Effect", "Hook", "IpsecPolicy", "MarkSetter", "Marking", "MarkingOf"]

#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Adds Linux's own rules again where they are missing. Written by hostrouting.
#
# Other rules are never changed. A rule with another priority that looks up the same table for all packets is a
# decision: Cilium moves the rule for table local behind its own.
# Exit status: 0, or 1 with the reasons.

# Data only: no line of it is executed.
configuration=(
)

export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
failed=''

complain() { failed=1 && printf '<3>kernel-rules: %s\n' "$1" >&2; }

while read -r _ family priority table; do
  [[ $family == 4 || -e /proc/self/net/if_inet6 ]] || continue # a kernel without IPv6 has no such file
  rules=$(ip -"$family" -N rule show 2>&1) || { complain "the rules cannot be read: $rules" && continue; }
  standing="(^|"$'\n'")[0-9]+:"$'\t'"from all lookup $table( proto [^ ]+)? *("$'\n'"|$)"
  [[ $rules =~ $standing ]] && continue
  # With protocol 2, kernel, as Linux itself adds them: systemd-networkd leaves these.
  said=$(ip -"$family" rule add priority "$priority" table "$table" protocol 2 2>&1) && continue
  [[ $said == *'File exists'* ]] || complain "the rule $priority: from all lookup $table was refused: $said"
done < <(printf '%s\n' "${configuration[@]}")
finished=1
[[ ! $failed ]] || exit 1
exit 0

#!/bin/bash
# Loads the nftables table that lets the IPv6 probes of a load balancer reach the pods, unless it is in force: listed
# with all its comments. The first comment contains its digest. The text replaces the whole table in one transaction.
# Other tables are never changed. Without IPv6, the rules match nothing. The route for the replies is a static route.
# Exit status: 0, or 1 with the reason.
# Data only: no line of it is executed. Each line is a line of the text that nft loads.
configuration=(
)
set -u && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
fail() {
  printf '<3>probe-rewrite: %s\n' "$1" >&2
  exit 1
}
is_in_force() {
  local comment
  said=$(nft -s list table ip6 "$table" 2>&1) && [[ $said != *'flags dormant'* ]] || return
  for comment in "${comments[@]}"; do [[ $said == *"$comment"* ]] || return; done
}

text='' said='' comments=()
for line in "${configuration[@]}"; do
  text+=${line#nft }$'\n'
  [[ $line != *'comment "'* ]] || comments+=("comment ${line#*comment }")
done
table=${text#add table ip6 } table=${table%%$'\n'*}
[[ ${comments[0]-} == 'comment "hostrouting: '* ]] || {
  fail 'this script has lost its settings: run: hostrouting apply --config /etc/hostrouting/config.json'
}
hash nft 2>/dev/null || fail 'the program nft was not found: install the package nftables'
for tries in 1 2 3; do # something may flush nftables at this moment
  is_in_force && exit 0
  ((tries < 3)) || break
  said=$(nft -f - 2>&1 < <(printf '%s' "$text")) || fail "nft refuses table ip6 $table: ${said%%$'\n'*}"
done
fail "table ip6 $table is not as it was loaded: something on this host flushes nftables; stop it"

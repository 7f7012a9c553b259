#!/bin/bash
# Loads the nftables table that lets the IPv6 probes of a load balancer reach the pods, unless it is
# in force: listed with all its comments. The first comment contains its digest. That somebody has
# edited a rule, but not its comment, is not noticed. The text replaces the whole table in one
# transaction. Other tables are never changed. Without IPv6, the rules match nothing. The route for
# the replies is a static route.
# Exit status: 0, or 1 with the reason.
# Data only: no line of it is executed. Each line is a line of the text that nft loads.
configuration=(
)
set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

fail() {
  printf '<3>probe-rewrite: %s\n' "$1" >&2
  exit 1
}

is_in_force() {
  local comment listed
  listed=$(nft -s list table ip6 "$table" 2>&1) || return
  if [[ $listed == *'flags dormant'* ]]; then
    return 1
  fi
  for comment in "${comments[@]}"; do
    if [[ $listed != *"$comment"* ]]; then
      return 1
    fi
  done
}

text=''
comments=()
for line in "${configuration[@]}"; do
  text+=${line#nft }$'\n'
  if [[ $line == *'comment "'* ]]; then
    comments+=("comment ${line#*comment }")
  fi
done
table=${text#add table ip6 } # with which the text begins
table=${table%%$'\n'*}
if [[ ${comments[0]-} != 'comment "hostrouting: '* ]]; then
  advice_apply='hostrouting apply --config /etc/hostrouting/config.json'
  fail "this script has lost its settings: run: $advice_apply"
fi
if ! hash nft 2>/dev/null; then
  fail 'the program nft was not found: install the package nftables'
fi

# Looks, loads the table, and looks again; it is loaded up to twice, because something may flush
# nftables at this moment.
for loads in 0 1 2; do
  if is_in_force; then
    exit 0
  fi
  if ((loads < 2)); then
    said=$(printf '%s' "$text" | nft -f - 2>&1) ||
      fail "nft refuses table ip6 $table: ${said%%$'\n'*}"
  fi
done
fail "table ip6 $table is not as it was loaded: something on this host flushes nftables; stop it"

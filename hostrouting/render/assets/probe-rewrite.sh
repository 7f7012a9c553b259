#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Lets the IPv6 probes of a load balancer reach the pods. Written by hostrouting.
#
# The probes come from a link-local address, and no node may forward a packet with such a source. So a table of nftables
# gives them a global address before they are routed, and gives the replies the link-local address on their way out. To
# be sent at all, the replies need a route to that global address; one that is kept here carries our protocol number.
# The table is loaded in one transaction, so that no packet meets half of it. Other tables, and routes of other owners,
# are never touched. Exit status: 0, or 1 when the table or the route could not be had; why is in the journal.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -uf && shopt -s extglob
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

table='' priority='' link_local='' global='' route='' protocol='' condition='' wait=30 directory='' interfaces=()
for line in "${configuration[@]}"; do
  case $line in
    'table '*) table=${line#* } ;;
    'priority '*) priority=${line#* } ;;
    'link-local '*) link_local=${line#* } ;;
    'global '*) global=${line#* } ;;
    'interface '*) interfaces+=("${line#* }") ;;
    'route '*) route=${line#* } ;;         # yes, or no: the replies have another one
    'protocol '*) protocol=${line#* } ;;   # the number that makes a route ours
    'condition '*) condition=${line#* } ;; # always, never, or local-ipv6: where an interface has an IPv6 address
    'wait '*) wait=${line#* } ;;           # how many seconds a link or an address is waited for
    'state '*) directory=${line#* } ;;
  esac
done
# Whoever runs this may have less time.
[[ ${1-} ]] && ((wait > $1)) && wait=$1
waited=0
# Says what was put into the kernel, so that it can be found again when the configuration has changed.
applied=${RUNTIME_DIRECTORY:-$directory}/probe-rewrite.applied
readonly LIMIT=5 # seconds for one program

#include nap.sh

say() { printf '<%s>probe-rewrite: %s\n' "$1" "$2" >&2; }

fail() {
  say 3 "$1"
  finished=1 && exit 1
}

# Sets `said` to what a program prints, and returns its status; $input is what it reads. One that does not end in time
# is left running: the sandbox of the unit refuses `kill`, and systemd ends it together with the unit.
run() {
  local status IFS=' '
  IFS= read -r -d '' -t $LIMIT said < <(
    exec 2>&1
    "$@" < <(printf '%s' "${input-}")
    printf '\nstatus %s' $?
  )
  status=${said##*$'\nstatus '}
  [[ $said == *$'\nstatus '+([0-9]) ]] || fail "'$*' did not end within $LIMIT s: see what it waits for, and try again"
  said=${said%$'\nstatus '*}
  return "$status"
}

# Whether the probes are to be rewritten. An address that may still prove to be a duplicate is waited for, and counts
# when the time is over: the rules match nothing where there is no IPv6, and without them every backend looks dead.
is_wanted() {
  local dev line unknown tentative IFS=$'\n'
  [[ $condition == local-ipv6 ]] || { [[ $condition == always ]]; return; }
  while :; do
    unknown='' tentative=''
    for dev in "${interfaces[@]}"; do
      run ip -6 -o address show dev "$dev" scope global || unknown="$dev: ${said%%$'\n'*}"
      for line in $said; do
        case $line in
          *' dadfailed '*) ;;
          *' tentative '*) unknown=$dev tentative=1 ;;
          *' inet6 '*) return 0 ;;
        esac
      done
    done
    [[ $unknown ]] || return 1
    ((waited < wait * 5)) || break
    nap
  done
  if [[ $tentative ]]; then
    printf -v dev ' or %s' "${interfaces[@]}"
    say 4 "no address of ${dev:4} has got beyond tentative within $wait s; probes are rewritten all the same, as the \
rules match nothing where there is no IPv6"
    return 0
  fi
  say 4 "probes are not rewritten, for no interface had an IPv6 address within $wait s ($unknown)"
  return 1
}

# --- The note of what is in the kernel.

# What is wanted there, and what an earlier run has put there that is not wanted now.
own=("table $table") former=()
[[ $route == yes ]] && own+=("route $global dev ${interfaces[0]} protocol $protocol")

read_applied() {
  local line
  [[ -f $applied ]] || return
  while IFS= read -r line; do
    [[ $line =~ ^(table [a-z][a-z0-9_]*|route [0-9a-f:.]+ dev [A-Za-z0-9_.-]+ protocol [0-9]+)$ ]] || continue
    [[ $line == "${own[0]}" || $line == "${own[1]-}" ]] && continue
    [[ $line == route* ]] || is_free "${line#* }" || continue # of that name there is another's by now
    former+=("$line")
  done <"$applied"
}

# Without it the probes are rewritten as well; only what is there now would not be found after a change.
note() {
  local why
  why=$(put "$@" 2>&1) || why=$(put "$@" 2>&1) || say 4 "cannot write $applied: ${why##*: }"
}

put() {
  local new=${applied%.*}.new
  [[ -d ${applied%/*} ]] || mkdir -p "${applied%/*}" || return
  printf '%s\n' "$@" >"$new" && mv -f "$new" "$applied"
}

# --- The table.

ruleset() {
  local names says='comment "hostrouting:'
  printf -v names ', "%s"' "${interfaces[@]}"
  names="{ ${names:2} }"
  printf '%s\n' "table ip6 $table {" \
    "chain prerouting {" \
    "type filter hook prerouting priority $priority; policy accept;" \
    "ip6 saddr != $link_local return $says not a probe\"" \
    "iifname != $names return $says did not come in by an uplink\"" \
    "ip6 daddr { fe80::/10, ff00::/8 } return $says stays on the link\"" \
    "icmpv6 type { 130, 131, 132, 133, 134, 135, 136, 137, 143 } return $says neighbour discovery and MLD\"" \
    "counter ip6 saddr set $global $says from an address that may be forwarded\"" \
    "}" \
    "chain postrouting {" \
    "type filter hook postrouting priority $priority; policy accept;" \
    "ip6 daddr $global oifname $names counter ip6 daddr set $link_local $says back to the address of the probe\"" \
    "}" "}"
}

# Whether a table of this name may be taken away: it has one of our rules, or nothing in it, or nft cannot tell (a
# dormant one), or it is not there. Where it is there, `said` begins with "table".
is_free() {
  local line IFS=$'\n'
  run nft -n list table ip6 "$1" || return 0
  [[ $said == *'comment "hostrouting: '* || $said == *'flags '*dormant* ]] && return
  for line in $said; do
    [[ $line =~ ^[[:space:]]*(table .*|flags .*|chain .*|type .* hook .*|\})$ ]] || return
  done
}

# Takes the tables of these lines away, and loads what follows, in one transaction.
load() {
  local line why input='' rules=$1
  shift
  # Added first, so that it can be deleted where there is none.
  for line; do [[ $line == table* ]] && input+="add table ip6 ${line#* }; delete table ip6 ${line#* }"$'\n'; done
  input+=$rules
  run nft -f - && return
  why=${said%%$'\n'*}
  input=''
  for line; do
    [[ $line == table* ]] && run nft list "table ip6 ${line#* }" && [[ $said == *'flags owner'* ]] &&
      fail "table ip6 ${line#* } belongs to another process, and only that may change it: end the process"
  done
  [[ $why == *'not permitted'* ]] && why+=' (this takes root, or CAP_NET_ADMIN)'
  fail "nft refuses table ip6 $table: ${why#*Error: }"
}

# What is the same in every listing, however a version of nft writes the rest.
outline() {
  local line IFS=$'\n'
  for line in $1; do
    [[ $line =~ (flags .*|type filter hook .*|comment \".*)$ ]] && printf '%s\n' "${BASH_REMATCH[1]}"
  done
}

is_loaded() { run nft -n list table ip6 "$table" && [[ $(outline "$said") == "$(outline "$1")" ]]; }

#include reply-route.sh

# What is in the way is named before anything is changed.
require_free_way() {
  is_free "$table" ||
    fail "table ip6 $table is not ours, no comment in it begins with 'hostrouting:': set table to another name"
  run ip -6 -o address show to "$global/128" && [[ $said == *' inet6 '* ]] && said=${said#*: } &&
    fail "$global is an address of this host, on ${said%% *}: set globalAddress to an address that no host has"
  [[ $route != yes ]] || require_no_holder
}

# By whoever ends it, as its unit does one that has no end.
trap 'say 3 "stopped before all routes were installed"; finished=1; exit 143' TERM
read_applied
if is_wanted; then
  hash nft 2>/dev/null || fail 'nft is not there: install the package nftables'
  require_free_way
  rules=$(ruleset)
  note "${own[@]}" "${former[@]}"
  for attempt in 1 2 3; do # for the start of another machine may flush nftables in between
    load "$rules" "${own[@]}" "${former[@]}"
    if [[ $route == yes ]]; then place_route; else look_at_routes; fi
    remove_stale
    is_loaded "$rules" && break
    ((attempt < 3)) || fail "table ip6 $table does not stay: something on this host flushes nftables; stop that"
  done
  note "${own[@]}"
else
  former+=("${own[0]}") route=no
  there=()
  for line in "${former[@]}"; do
    # Where nftables is not there at all, no table is.
    [[ $line == table* ]] && is_free "${line#* }" && [[ $said == table* ]] && there+=("$line")
  done
  ((${#there[@]})) && load '' "${there[@]}"
  look_at_routes
  remove_stale
  rm -f "$applied"
fi
finished=1 && exit 0

#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Lets the IPv6 probes of a load balancer reach the pods. Written by hostrouting.
#
# The probes come from a link-local address, and a node must not forward packets with such a source. So an nftables
# table changes their source to a global address before routing, and in the replies changes it back to the link-local
# address after routing. The replies need a route to that global address; the route that this script adds carries our
# protocol number. The table is loaded in one transaction, so no packet meets half of it. Other tables, and other
# programs' routes, are never touched. Exit status: 0, or 1 if the table or the route could not be added; the reason is
# in the journal.

# Only data: no line of it is ever run.
configuration=(
)

set -uf && shopt -s extglob
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

table='' priority='' link_local='' global='' route='' protocol='' condition='' wait=30 directory='' interfaces=()
# shellcheck disable=SC2034 # reply-route.sh uses METRIC
for line in "${configuration[@]}"; do
  case $line in
    'table '*) table=${line#* } ;;
    'priority '*) priority=${line#* } ;;
    'link-local '*) link_local=${line#* } ;;
    'global '*) global=${line#* } ;;
    'interface '*) interfaces+=("${line#* }") ;;
    'route '*) route=${line#* } ;;         # yes, or no: the replies use another route
    'protocol '*) protocol=${line#* } ;;   # the number that marks our routes
    'metric '*) METRIC=${line#* } ;;       # of the route that is added
    'condition '*) condition=${line#* } ;; # always, never, or local-ipv6: if an interface has an IPv6 address
    'wait '*) wait=${line#* } ;;           # how many seconds to wait for a device or an address
    'state '*) directory=${line#* } ;;
  esac
done
# The caller may allow less time.
[[ ${1-} ]] && ((wait > $1)) && wait=$1
waited=0
# This file records what was added to the kernel, so that it can be found after the configuration has changed.
applied=${RUNTIME_DIRECTORY:-$directory}/probe-rewrite.applied
readonly LIMIT=5 # seconds for one program

#include nap.sh

say() { printf '<%s>probe-rewrite: %s\n' "$1" "$2" >&2; }

fail() {
  say 3 "$1"
  finished=1 && exit 1
}

# Runs a program with $input as its standard input; sets `said` to its output and returns its status. A program that
# does not end in time is left running: the sandbox of the unit refuses `kill`, and systemd kills it with the unit.
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

# Whether the probes should be rewritten. This waits while an address is tentative, as it may be a duplicate. After the
# timeout a tentative address counts: the rules match nothing if there is no IPv6, and without them the load balancer
# regards every backend as dead.
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
    say 4 "the IPv6 addresses of ${dev:4} are still tentative after $wait s; probes are rewritten anyway, \
because the rules match nothing if there is no IPv6"
    return 0
  fi
  say 4 "probes are not rewritten, because no interface had an IPv6 address within $wait s ($unknown)"
  return 1
}

# --- The record of what is in the kernel.

# `own` is what this run wants in the kernel; `former` is what an earlier run has added and this one does not want.
own=("table $table") former=()
[[ $route == yes ]] && own+=("route $global dev ${interfaces[0]} protocol $protocol")

read_applied() {
  local line
  [[ -f $applied ]] || return
  while IFS= read -r line; do
    [[ $line =~ ^(table [a-z][a-z0-9_]*|route [0-9a-f:.]+ dev [A-Za-z0-9_.-]+ protocol [0-9]+)$ ]] || continue
    [[ $line == "${own[0]}" || $line == "${own[1]-}" ]] && continue
    [[ $line == route* ]] || is_free "${line#* }" || continue # another program's table has this name now
    former+=("$line")
  done <"$applied"
}

# Without the record the rewrite works too; only the present table and route would not be found after a change.
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

# Whether the table of this name may be deleted: it has one of our rules, or is empty, or nft does not list its content
# (a dormant table), or it does not exist. If it exists, `said` begins with "table".
is_free() {
  local line IFS=$'\n'
  run nft -n list table ip6 "$1" || return 0
  [[ $said == *'comment "hostrouting: '* || $said == *'flags '*dormant* ]] && return
  for line in $said; do
    [[ $line =~ ^[[:space:]]*(table .*|flags .*|chain .*|type .* hook .*|\})$ ]] || return
  done
}

# Deletes the tables in the lines $2 and following, and loads the rules $1, in one transaction.
load() {
  local line name why input='' rules=$1
  shift
  # Each table is added first, because deleting an absent table is an error.
  for line; do [[ $line == table* ]] && input+="add table ip6 ${line#* }; delete table ip6 ${line#* }"$'\n'; done
  input+=$rules
  run nft -f - && return
  why=${said%%$'\n'*}
  input=''
  for line; do
    name=${line#* }
    [[ $line == table* ]] && run nft list "table ip6 $name" && [[ $said == *'flags owner'* ]] &&
      fail "table ip6 $name is owned by another process, and only that process can change it: end the process"
  done
  [[ $why == *'not permitted'* ]] && why+=' (requires root or CAP_NET_ADMIN)'
  fail "nft refuses table ip6 $table: ${why#*Error: }"
}

# The parts of a listing that every version of nft prints alike.
outline() {
  local line IFS=$'\n'
  for line in $1; do
    [[ $line =~ (flags .*|type filter hook .*|comment \".*)$ ]] && printf '%s\n' "${BASH_REMATCH[1]}"
  done
}

is_loaded() { run nft -n list table ip6 "$table" && [[ $(outline "$said") == "$(outline "$1")" ]]; }

#include reply-route.sh

# Fails before anything is changed if something prevents the change.
require_free_way() {
  is_free "$table" ||
    fail "table ip6 $table is not ours: no comment in it begins with 'hostrouting:'; set table to another name"
  run ip -6 -o address show to "$global/128" && [[ $said == *' inet6 '* ]] && said=${said#*: } && dev=${said%% *} &&
    fail "$global is an address of this host, on $dev: set globalAddress to an address that no host has"
  [[ $route != yes ]] || require_no_holder
}

# Systemd sends SIGTERM when the unit is stopped or reaches its timeout.
trap 'say 3 "stopped before the work was done"; finished=1; exit 143' TERM
read_applied
if is_wanted; then
  hash nft 2>/dev/null || fail 'the program nft was not found: install the package nftables'
  require_free_way
  rules=$(ruleset)
  note "${own[@]}" "${former[@]}"
  for attempt in 1 2 3; do # the start of another machine may flush nftables in between
    load "$rules" "${own[@]}" "${former[@]}"
    if [[ $route == yes ]]; then place_route; else look_at_routes; fi
    remove_stale
    is_loaded "$rules" && break
    ((attempt < 3)) || fail "table ip6 $table was deleted again: something on this host flushes nftables; stop it"
  done
  note "${own[@]}"
else
  former+=("${own[0]}") route=no
  there=()
  for line in "${former[@]}"; do
    # Without nftables there are no tables.
    [[ $line == table* ]] && is_free "${line#* }" && [[ $said == table* ]] && there+=("$line")
  done
  ((${#there[@]})) && load '' "${there[@]}"
  look_at_routes
  remove_stale
  rm -f "$applied"
fi
finished=1 && exit 0

#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Lets the IPv6 probes of a load balancer reach the pods. Written by hostrouting.
#
# Loads an nftables table that changes the source of probes, and adds the route for the replies, as soon as its device
# can have it. The table is always loaded: without IPv6 its rules match nothing. Other tables, and other programs'
# routes, are never changed.
# Exit status: 0, or 1 with the reason in the journal. A route that waits for its device is not a failure.

# Only data: no line of it is ever run.
configuration=(
)

set -uf
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

table='' global='' dev='' route='' protocol='' metric='' wait=30 directory='' text=''
for line in "${configuration[@]}"; do
  case $line in
    'table '*) table=${line#* } ;;
    'global '*) global=${line#* } ;;
    'interface '*) dev=${line#* } ;;     # a configuration with a route has one interface
    'route '*) route=${line#* } ;;       # yes, or no: the replies use another route
    'protocol '*) protocol=${line#* } ;; # the number that marks our routes
    'metric '*) metric=${line#* } ;;     # of the route that is added
    'wait '*) wait=${line#* } ;;         # how many seconds to wait for the device
    'state '*) directory=${line#* } ;;
    'nft '*) text+=${line#* }$'\n' ;; # what nft loads, line by line
  esac
done
# A gated unit does not wait for the route.
[[ ${1-} ]] && wait=0
waited=0
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
  [[ $said == *$'\nstatus '[0-9]* ]] || fail "'$*' did not end within $LIMIT s: see what it waits for, and try again"
  said=${said%$'\nstatus '*}
  return "$status"
}

# Sets `said` to the table as nft lists it, without counts.
list() { run nft -n -s list table ip6 "$table"; }

# Notes what may be in the kernel, and the text that was loaded and how nft lists it, if that is known. hostrouting
# finds out by it whether the table is as it was loaded, and deletes what an earlier configuration has added.
note() {
  local line lines=() why
  [[ $route == yes ]] && lines=("route $global")
  [[ -f $applied ]] && while IFS= read -r line && [[ $line ]]; do
    [[ $line == "${lines[0]-}" ]] || lines+=("$line")
  done <"$applied"
  why=$(put "$(printf '%s\n' "${lines[@]}")"$'\n\n'"$1" 2>&1) || say 4 "cannot write $applied: ${why##*: }"
}

put() {
  [[ -d ${applied%/*} ]] || mkdir -p "${applied%/*}" || return
  printf '%s' "$1" >"${applied%.*}.new" && mv -f "${applied%.*}.new" "$applied"
}

# Loads the table in one transaction, so no packet meets half of it. Sets `listing`.
load() {
  list && [[ $said != *'comment "hostrouting: '* ]] &&
    fail "table ip6 $table is not ours: nothing in it has a comment that begins with 'hostrouting:'; \
delete it, and stop the program that creates it"
  note ''
  if ! input=$text run nft -f -; then
    said=${said%%$'\n'*}
    [[ $said == *'not permitted'* ]] && said+=' (requires root or CAP_NET_ADMIN)'
    fail "nft refuses table ip6 $table: ${said#*Error: }"
  fi
  list && listing=$said && note "$text$listing"
}

# Loads the table unless nft lists it as it did after it was loaded. The start of another gated unit may flush nftables
# meanwhile.
keep_table() {
  local loads=0
  until list && [[ $listing && $said == "$listing" ]]; do
    ((++loads <= 3)) ||
      fail "table ip6 $table does not stay as it was loaded: something on this host flushes nftables; stop it"
    load
  done
}

# Adds the route for the replies. Returns 1, and sets `why`, if the replies do not leave by it; sets `is_minor` if that
# may change without the operator of this host.
place_route() {
  local how=add holder line IFS=$'\n'
  while ! run ip -6 route $how "$global/128" dev "$dev" proto "$protocol" metric "$metric" table main; do
    why=${said%%$'\n'*} why=${why#RTNETLINK answers: }
    if [[ $why == 'File exists' ]]; then
      run ip -6 -N -o route show table main exact "$global/128"
      for line in $said; do [[ "$line " == *" metric $metric "* ]] && holder=$line && break; done
      # Another program's route with the same way has the same effect.
      [[ "${holder-} " == *" dev $dev "* && $holder != *' via '* ]] && break
      why="its route [${holder-}] is not ours, and replies use it: delete it, or set probeRewrite.ensureRoute to false"
      [[ "${holder-} " == *" proto $protocol "* ]] || return
      how=replace
      continue
    fi
    is_minor=1
    [[ $why == *'IPv6 is disabled'* || ! -e /proc/self/net/if_inet6 ]] && # a kernel without IPv6 has no such file
      why="IPv6 is off on $dev, so no probe arrives there: set net.ipv6.conf.$dev.disable_ipv6 to 0" && return 1
    why="no route by $dev within $wait s ($why)"
    ((waited < wait * 5)) || return
    is_minor='' && nap
  done
  run ip -6 -o route get "$global"
  why="the replies do not leave by $dev, but as Linux says: ${said%%$'\n'*}" is_minor=1
  [[ "$said " == *" dev $dev "* ]]
}

# Systemd sends SIGTERM when the unit is stopped or reaches its timeout.
trap 'say 3 "stopped before the work was done"; finished=1; exit 143' TERM
hash nft 2>/dev/null || fail 'the program nft was not found: install the package nftables'
listing='' why='' is_minor=''
[[ -f $applied && $(<"$applied") == *$'\n\n'"$text"* ]] && listing=$(<"$applied") && listing=${listing##*"$text"}$'\n'
keep_table
[[ $route != yes ]] || place_route || {
  why="$global: $why"
  [[ $is_minor ]] || fail "$why"
  say 4 "$why; the rules are loaded, and the next start of a gated unit, or the guard, tries again"
}
keep_table # it may have waited
finished=1 && exit 0

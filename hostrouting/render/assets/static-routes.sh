#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Installs the static routes, and takes away those of ours that are no longer wanted. Written by hostrouting.
#
# A route that is not ours is never touched: ours are those that carry our protocol number. When all is as it should be,
# nothing is written. Exit status: 0, or 1 when a route could not be had; why is in the journal, one line a route.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -uo pipefail
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

wait=30
for line in "${configuration[@]:0:2}"; do
  case $line in 'wait '*) wait=${line#* } ;; esac
done

fail() {
  printf '<3>static-routes: %s\n' "$1" >&2
  exit 1
}

# What is wrong is one line a route; what is to be done is one line a command of `ip`.
plan() {
  {
    printf '%sstate\n' "$settings"
    exec ip -4 -N -d -o -batch - <<<$'rule show\nroute show table all\nlink show\nnetconf show' 2>&1
  } | awk -v waited="$wait" '
#include routing.awk
#include rules.awk
#include fib.awk
#include uplink.awk
#include static-routes.awk
'
}

carry_out() {
  local problems
  problems=$(ip -4 -N -force -batch - <<<"$1" 2>&1 >/dev/null) && return
  # Each problem is followed by the number of its command.
  local commands said='' line
  mapfile -t commands <<<"$1"
  while IFS= read -r line; do
    case $line in
      'Command failed '*) printf '<3>static-routes: %s: %s\n' "${commands[${line##*:} - 1]}" "$said" >&2 && said= ;;
      *) said+=${said:+ }${line#RTNETLINK answers: } ;;
    esac
  done <<<"$problems"
  return 1
}

printf -v settings 'setting %s\n' "${configuration[@]}"
tries=0 failed=''
while :; do
  steps=$(plan) || fail "what is there cannot be told: ${steps##*$'\n'}"
  missing='' refused='' changes='' removals=''
  while IFS= read -r line; do
    case $line in
      'missing '*) missing+=${line#* }$'\n' ;;
      'refused '*) refused+=${line#* }$'\n' ;;
      'change '*) changes+=${line#* }$'\n' ;;
      'remove '*) removals+=${line#* }$'\n' ;;
    esac
  done <<<"$steps"
  if [[ $missing ]] && ((SECONDS < wait)); then
    sleep 0.2
    continue
  fi
  # Nothing is taken away until everything else is there.
  [[ $missing$refused$changes ]] || changes=$removals
  # Whatever was written is read back: this ends when there is nothing left to write.
  if [[ -z $changes ]] || ((tries++ >= 4)) || [[ $failed ]]; then break; fi
  carry_out "${changes%$'\n'}" || failed=1
done

while IFS= read -r line; do
  [[ $line ]] && printf '<3>static-routes: %s\n' "$line" >&2
done <<<"$missing$refused"
[[ $failed || $missing || $refused ]] && exit 1
[[ -z $changes ]] || fail "something else keeps changing these routes: ${changes%%$'\n'*}"
finished=1

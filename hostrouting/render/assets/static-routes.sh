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

# What is wrong is one line a route, what is to be done one line a command of `ip`; then comes "end", if all went well.
plan() {
  {
    printf '%sstate\n' "$settings"
    printf '%s\n' 'rule show' 'route show table all' 'link show' 'netconf show' | ip -4 -N -d -o -batch - 2>&1
  } | awk -v waited="$wait" '
#include routing.awk
#include rules.awk
#include fib.awk
#include uplink.awk
#include static-routes.awk
' && echo end
}

# Nothing here goes through a temporary file (as here-strings do), for there may be no room for one.
look() {
  missing='' refused='' changes='' removals=''
  local line said='' ended=''
  while IFS= read -r line; do
    case $line in
      'missing '*) missing+=${line#* }$'\n' ;;
      'refused '*) refused+=${line#* }$'\n' ;;
      'change '*) changes+=${line#* }$'\n' ;;
      'remove '*) removals+=${line#* }$'\n' ;;
      end) ended=1 ;;
      *) said=$line ;;
    esac
  done < <(plan)
  [[ $ended ]] || fail "what is there cannot be told: ${said:-ip or awk came to no end}"
}

# What the kernel refuses is in `problems`; whether that matters, the next look tells: somebody else may have done it.
carry_out() {
  problems=''
  local commands line said=''
  mapfile -t commands < <(printf '%s' "$1")
  while IFS= read -r line; do
    case $line in
      # Each problem is followed by the number of its command.
      'Command failed '*) problems+="${commands[${line##*:} - 1]-}: $said"$'\n' && said= ;;
      *) said+=${said:+ }${line#RTNETLINK answers: } ;;
    esac
  done < <(printf '%s' "$1" | ip -4 -N -force -batch - 2>&1 >/dev/null)
}

printf -v settings 'setting %s\n' "${configuration[@]}"
tries=0 naps=0 problems=''
while :; do
  look
  # Counted in naps of a fifth of a second: the clock may be set meanwhile.
  if [[ $missing ]] && ((naps++ < wait * 5)); then
    sleep 0.2
    continue
  fi
  # Nothing is taken away until everything else is there.
  [[ $missing$refused$changes ]] || changes=$removals
  # Whatever was written is read back: this ends when there is nothing left to write.
  if [[ -z $changes ]] || ((tries++ >= 4)); then break; fi
  carry_out "$changes"
done

if [[ -z $changes ]]; then
  problems=''
elif [[ -z $problems ]]; then
  problems="something else keeps changing these routes: ${changes%%$'\n'*}"$'\n'
fi
while IFS= read -r line; do
  printf '<3>static-routes: %s\n' "$line" >&2
done < <(printf '%s' "$missing$refused$problems")
[[ $missing$refused$changes ]] && exit 1
finished=1

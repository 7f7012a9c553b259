#!/bin/sh
status='' && trap 'exit "${status:-3}"' EXIT # a script that was cut short, or fails, says nothing about the node
# A custom plugin for node-problem-detector: what hostrouting found on this node. `hostrouting npd --script` prints it.
#
# Exit status 0: fine, 1: a problem, 3: unknown. One line says why: ASCII, with the meaning in its first 80 bytes. It
# reads what the guard and the check have written; it needs head and date, but neither Python nor root.
# Options: --about verdict|repairs, --max-age SECONDS (of the last check, if no guard runs), --directory DIRECTORY
export LC_ALL=C PATH="$PATH:/usr/bin:/bin"
about=verdict max_age=86400 directory=/run/aks-flex-node fresh=180

answer() { status=$1; printf '%s\n' "$2"; exit "$1"; }
unknown() { answer 3 "UNKNOWN: $1"; }

while [ $# -gt 0 ]; do
  case $1 in --*=*) word=$1 && shift && set -- "${word%%=*}" "${word#*=}" "$@" ;; esac
  case $1,${2-} in
    --about,verdict | --about,repairs) about=$2 ;;
    --max-age,*[!0-9]* | --max-age, | --max-age,??????????*) unknown "--max-age takes a number of seconds" ;;
    --max-age,*) max_age=$2 ;;
    --directory,/*) directory=$2 ;;
    *) unknown "the options are --about verdict|repairs, --max-age SECONDS and --directory DIRECTORY, not: $1 ${2-}" ;;
  esac
  shift 2
done

# The JSON is on one line, and the keys are in a known order. A quote inside a text has a backslash before it, so the
# name of a key in quotes cannot be part of a text. A shell needs a time that grows with the square of the distance to
# find a word: so each search begins where the last one ended, and only the beginning of a file is read.

# Sets `text` to the beginning of a file.
read_file() { text='' && [ -f "$1" ] && text=$(head -c 16384 "$1" 2>/dev/null); }
# Takes everything up to these words from `text`.
go_to() { text=${text#*"$1"}; }
# Sets `value` to the text in quotes that is next; empty if that is something else, such as null.
take() { case $text in \"*) value=${text#?} && value=${value%%\"*} ;; *) value='' ;; esac; }
# Whether a text is as it was before it was put into JSON, and may be shown.
is_plain() { case $1 in *[!\ -~]* | *\\*) return 1 ;; esac; }

# Sets `seconds`, since 1970, of a moment such as 2026-08-01T10:00:00Z. Years begin in March here: February is the last
# month, so that its length is no matter.
read_moment() {
  case $1 in
    [12][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]Z) ;;
    *) return 1 ;;
  esac
  rest=${1%Z} && year=${rest%%-*} && rest=${rest#*-} && month=${rest%%-*} && rest=${rest#*-} && day=${rest%%T*}
  rest=${rest#*T} && hour=${rest%%:*} && rest=${rest#*:} && minute=${rest%%:*} && second=${rest#*:}
  month=$((${month#0} - 3)) # without the 0, or it would be an octal number
  [ "$month" -ge 0 ] || { month=$((month + 12)) && year=$((year - 1)); }
  days=$((365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + ${day#0} - 719469))
  seconds=$((days * 86400 + ${hour#0} * 3600 + ${minute#0} * 60 + ${second#0}))
}

# Answers by a verdict: $1 is the verdict, $2 when it was found. `text` is the report, if it has this verdict.
by_verdict() {
  case $1 in
    ok) answer 0 "OK: every expected CIDR leaves by an expected device; $2" ;;
    overlap) ;;
    no-default-route)
      answer 1 "NO-DEFAULT-ROUTE: there is no default route; $2; on the host, run: hostrouting check"
      ;;
    undecided) unknown "the verdict is undecided; $2; on the host, run: hostrouting check" ;;
    *) return ;;
  esac
  found='OVERLAP: addresses of an expected CIDR do not leave by an expected device'
  go_to '"findings": [{"cidr": ' && take && cidr=$value
  if [ "$cidr" ]; then
    text=${text%%'}}'*} && go_to '"kind": ' && take # in this finding
    case $value in
      no-route) found="NO-ROUTE: addresses of $cidr have no route" ;;
      unreachable) found="UNREACHABLE: addresses of $cidr are unreachable" ;;
      blackhole) found="BLACKHOLE: addresses of $cidr are dropped by a blackhole" ;;
      prohibit) found="PROHIBIT: addresses of $cidr are refused" ;;
      *)
        go_to '"via": {"dev": ' && take
        { [ "$value" ] && is_plain "$value"; } || value='another device'
        found="OVERLAP: addresses of $cidr leave by $value"
        ;;
    esac
  fi
  answer 1 "$found; $2; on the host, run: hostrouting repair"
}

# Sets `text` to the report of the last check and `verdict` to its verdict; both are empty if there is none.
read_report() {
  verdict='' && read_file "$directory/route-overlap.json"
  case $text in
    '{"schema": "hostrouting/check/1", "verdict": "'* | '{"schema": "hostrouting/check/2", "verdict": "'*)
      go_to '"verdict": ' && take && verdict=$value
      ;;
    *) text='' ;;
  esac
}

# The rest of `text` begins after the last look.
about_verdict() {
  go_to '"verdict": ' && take && found=$value
  go_to '"verdictSince": ' && take && when="since $value"
  go_to '"failure": '
  # Also what is behind a quote in it.
  case $text in \"*) value=${text%%'", "'*} && value=${value#?} ;; *) value='' ;; esac
  case "; $value" in
    *'; guard: '* | *'; check-route-overlap: '*)
      unknown 'the guard cannot check the routing; on the host, run: journalctl -u hostrouting-guard'
      ;;
  esac
  [ "$found" ] || unknown "nothing is checked, because no expected CIDRs are configured\
; on the host, add routeOverlap.expectedCidrs and run: hostrouting apply --config FILE"
  [ "$found" = ok ] && when="last look: $looked"
  read_report
  [ "$found" = "$verdict" ] || text='' # the guard writes the report first
  by_verdict "$found" "$when"
  unknown 'guard.json has a verdict that this plugin does not know; install the plugin of the same version'
}

about_repairs() {
  go_to '"failure": ' && take
  if [ "$value" ]; then
    is_plain "$value" || value='the guard cannot look or repair'
    answer 1 "FAILED: $value; on the host, run: journalctl -u hostrouting-guard"
  fi
  go_to '"fights": ['
  case $text in
    '{"key": '*)
      go_to '"key": ' && take
      is_plain "$value" || value=something
      answer 1 "UNDONE: $value does not stay repaired; on the host, run: hostrouting status"
      ;;
  esac
  go_to '"problems": [' && take
  while [ "$value" ]; do
    # A finding begins with a word such as OVERLAP: and the line after many findings counts the others.
    case ${value%%: *} in '' | "$value" | *[!A-Z-]*) is_finding='' ;; *) is_finding=yes ;; esac
    case $value in 'and '*) is_finding=yes ;; esac
    if [ ! "$is_finding" ]; then
      is_plain "$value" || value='the guard cannot repair something'
      answer 1 "NOT REPAIRED: $value; on the host, run: journalctl -u hostrouting-guard"
    fi
    case $text in *'", "'*) go_to '", "' && text="\"$text" && take ;; *) value='' ;; esac
  done
  answer 0 "OK: nothing is left to repair; last look: $looked"
}

[ -d "$directory" ] ||
  unknown "there is no directory $directory: nothing was checked on this host, or its directory is not mounted here"
now=$(date +%s)
case $now in '' | *[!0-9]*) unknown 'the program date does not work here' ;; esac
if [ -e "$directory/guard.json" ]; then
  read_file "$directory/guard.json"
  case $text in
    '{"schema": "hostrouting/guard/1", '*) go_to '"lastLook": ' && take && looked=$value ;;
    *) looked='' ;;
  esac
  read_moment "$looked" || unknown 'guard.json cannot be read; on the host, run: hostrouting status'
  [ $((now - seconds)) -le "$fresh" ] ||
    unknown "the guard has not looked since $looked; on the host, run: systemctl status hostrouting-guard"
  [ $((seconds - now)) -le "$fresh" ] || unknown "the clock was set back: the guard last looked at $looked\
; on the host, run: systemctl restart hostrouting-guard"
  "about_$about"
fi
[ "$about" = verdict ] || answer 0 'OK: no guard runs on this host, so nothing is repaired'
# The check at boot writes a marker only: its first line is the verdict, or a finding.
for found in json detected ok; do [ -e "$directory/route-overlap.$found" ] && break; done
[ -e "$directory/route-overlap.$found" ] ||
  unknown 'there is no result of a check since this host booted; on the host, run: hostrouting status'
times=$(date -u -r "$directory/route-overlap.$found" '+%s %Y-%m-%dT%H:%M:%SZ')
seconds=${times% *} checked=${times#* }
if [ "$found" = json ]; then
  read_report
else
  text='' verdict='' && { read -r verdict <"$directory/route-overlap.$found"; } 2>/dev/null
  case $verdict in '' | ok | undecided | no-default-route) ;; *) verdict=overlap ;; esac
fi
case $verdict,$seconds in
  ok,*[0-9] | overlap,*[0-9] | no-default-route,*[0-9] | undecided,*[0-9]) ;;
  *) unknown 'route-overlap.json cannot be read; on the host, run: hostrouting status' ;;
esac
[ $((now - seconds)) -le "$max_age" ] || unknown "no guard runs, and the last check was at $checked\
; enable the guard, or on the host, run: systemctl start check-route-overlap"
[ $((seconds - now)) -le "$fresh" ] || unknown "the clock was set back: the last check was at $checked\
; on the host, run: systemctl start check-route-overlap"
by_verdict "$verdict" "checked at $checked"

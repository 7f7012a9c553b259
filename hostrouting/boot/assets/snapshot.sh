#!/bin/sh
# Prints what the routing of this host depends on, as one JSON document for: hostrouting check --snapshot FILE
# It needs iproute2 and a POSIX system, but not root, and it changes nothing. Addresses, rules and routes are the
# kernel's messages in hexadecimal, as `ip ... save` writes them: the JSON of ip leaves out what ip does not know.
export PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin" LC_ALL=C
exec 4>&2

fail() {
  echo "hostrouting snapshot: $1" >&4
  exit 1
}

# Repeats a command of ip that failed: prints $1 if this kernel does not have what it lists, else fails with ip's words.
repeat() {
  nothing=$1 && shift
  why=$(ip "$@" 2>&1 >/dev/null | head -n 1)
  old="iproute2 5.3 or newer is needed, and this is $version: "
  case $why in *"is unknown"*) ;; *) old='' ;; esac
  case $why in
    *"not supported"*) printf %s "$nothing" ;;
    *) fail "${old}the command 'ip $*' failed: ${why:-it does not say why}" ;;
  esac
}

listed() {
  if list=$(ip -N -j -d "$@"); then printf %s "${list:-[]}"; else repeat '[]' -N -j -d "$@"; fi
}

# A pipe does not tell whether ip failed, so "end" follows the messages if it did not.
saved() {
  hex=$({ ip "$@" && printf end; } | od -A n -v -t x1 | tr -d ' \n')
  case $hex in *656e64) printf '"%s"' "${hex%656e64}" ;; *) repeat '""' "$@" ;; esac
}

# Lists the IPv4 settings that ip does not show and that are not 0, each as DEVICE/SETTING in quotes.
settings_on() {
  (cd /proc/sys/net/ipv4/conf && grep -ls '[1-9]' ./*/accept_local ./*/route_localnet ./*/src_valid_mark) |
    sed 's/[\\"]/\\&/g; s/^\.\/\(.*\)/"\1"/; $!s/$/,/'
}

# Prints the document; on standard error, what ip says meanwhile.
look() {
  printf '{"schema": "hostrouting/ip-snapshot/1",\n"ip": "%s",\n"links": ' "$version" && listed link show
  printf ',\n"on": [%s]' "$(settings_on)"
  printf ',\n"nexthops": ' && listed nexthop show
  for family in 4 6; do
    printf ',\n"settings%s": ' "$family" && listed "-$family" netconf show
    printf ',\n"addresses%s": ' "$family" && saved "-$family" address save
    printf ',\n"rules%s": ' "$family" && saved "-$family" rule save
    printf ',\n"routes%s": ' "$family" && saved "-$family" route save table all
  done
  printf '}'
}

# Differs whenever something else is listed; the seconds until a route expires do not count.
state() {
  {
    ip link; ip -brief address; ip nexthop; settings_on
    for family in 4 6; do ip "-$family" netconf; ip "-$family" rule; ip "-$family" route show table all; done
  } 2>/dev/null | sed 's/expires -*[0-9]*sec//'
}

for tool in od tr sed head grep; do
  command -v "$tool" >/dev/null || fail "the program $tool is not installed; install it (every POSIX system has it)"
done
version=$(ip -V 2>/dev/null | tr -cd '[:alnum:] .,-')
case $version in *iproute2*) ;; *) fail 'this host does not have the ip of iproute2; install iproute2' ;; esac
for attempt in 1 2 3 4 5 6 7 8; do
  before=$(state)
  document=$({ look 2>&1 >&3 | sed -n '/^Dump was interrupted/p' >&3; } 3>&1)
  case $document in *'Dump was interrupted'*) before=interrupted ;; *\}) ;; *) exit 1 ;; esac
  [ "$(state)" != "$before" ] || break
  [ "$attempt" != 8 ] || fail 'the routing changed during each of 8 attempts to read it; try again when it changes less'
done
printf '%s\n' "$document"

# --- The route for the replies, for probe-rewrite.sh.

# Reads the routes to the global address, which are listed in the order in which the kernel prefers them. Sets
# `is_there`; `holder`, another program's route with our metric; and `stale`, our routes that are not as wanted.
# A route that expires is not as wanted, whichever program added it: when it expires, the replies would be lost.
look_at_routes() {
  local line metric=0 way IFS=$'\n'
  way="^1 [^ ]+ dev ${interfaces[0]//./\\.} proto [0-9]+ scope [0-9]+ metric [0-9]+( linkdown| dead)*( pref medium)? *$"
  is_there='' holder='' stale=()
  run ip -6 -N -d -o route show table main exact "$global/128" || return
  for line in $said; do
    [[ $line =~ \ metric\ ([0-9]+) ]] && metric=${BASH_REMATCH[1]}
    if [[ "$line " == *" proto $protocol "* ]]; then
      if [[ $route == yes && $metric == "$METRIC" && $line =~ $way ]]; then is_there=1; else stale+=("$line"); fi
    elif [[ ! $is_there ]] && ((metric == METRIC)); then
      # Another program's route with the same attributes has the same effect.
      if [[ $line =~ $way ]]; then is_there=1; else holder=${holder:-${line#* }}; fi
    fi
  done
}

require_no_holder() {
  look_at_routes || fail "the routes to $global cannot be read: ${said#*: }"
  [[ ! $holder ]] ||
    fail "$global: its route [${holder% }] is not ours, and replies use it: delete it, or set ensureRoute to false"
}

place_route() {
  local dev=${interfaces[0]} how why=''
  while
    require_no_holder
    [[ ! $is_there ]]
  do
    if [[ $why ]]; then
      ((waited < wait * 5)) ||
        fail "$global: no route by $dev within $wait s ($why); set probeRewrite.interfaces to a device that is up"
      nap
    fi
    how=add
    [[ ${stale[*]} == *" metric $METRIC "* ]] && how=replace # the route with this key is ours
    run ip -6 route $how "$global/128" dev "$dev" proto "$protocol" metric "$METRIC" table main
    why=${said%%$'\n'*}
    why=${why#RTNETLINK answers: } why=${why:-another program deletes it}
  done
}

# Deletes the stale routes, and routes of another address, device or protocol that an earlier run has added.
remove_stale() {
  local line word words
  for line in "${stale[@]}"; do
    words=()
    for word in via dev metric; do
      [[ $line == *nexthop* && $word != metric ]] && continue
      [[ $line =~ \ $word\ ([^ ]+) ]] && words+=("$word" "${BASH_REMATCH[1]}")
    done
    run ip -6 route del "$global/128" proto "$protocol" table main "${words[@]}"
  done
  for line in "${former[@]}"; do
    [[ $line =~ ^route\ (.+)\ dev\ (.+)\ protocol\ (.+)$ ]] || continue
    run ip -6 route del "${BASH_REMATCH[1]}/128" dev "${BASH_REMATCH[2]}" proto "${BASH_REMATCH[3]}" table main
  done
}

# How the scripts wait: `waited` is in fifths of a second, and work counts, because reading 100,000 routes takes time.
# A nap is a fifth of the time waited so far, but at most 2 s.
[[ ${1-} ]] && ((wait > $1)) && wait=$1 # the caller may have less time
nap() {
  local fifths=$((1 + waited / 5)) left=$((wait * 5 - waited)) first=() now=() passed
  ((fifths > 10)) && fifths=10
  ((fifths > left)) && fifths=$left
  # In the background, so that the shell handles SIGTERM at once.
  sleep "$((fifths / 5)).$((fifths % 5 * 2))" &
  # The clock may be set meanwhile, and the sandbox has no /proc/uptime: how much later than this shell a program was
  # started, in hundredths of a second, is in its status.
  { read -ra first <"/proc/$$/stat" && read -ra now <"/proc/$!/stat"; } 2>/dev/null
  passed=$(((${now[21]-0} - ${first[21]-0}) / 20))
  ((waited = (passed > waited ? passed : waited) + fifths))
  wait $!
}

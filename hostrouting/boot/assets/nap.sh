# How the scripts wait. They count fifths of a second, because the clock may be set meanwhile. A nap is a fifth of the
# time waited so far, but at most 2 s: reading a table of 100,000 routes takes time too.
nap() {
  local fifths=$((1 + waited / 5)) left=$((wait * 5 - waited))
  ((fifths > 10)) && fifths=10
  ((fifths > left)) && fifths=$left
  ((waited += fifths))
  # In the background, so that the shell handles SIGTERM at once.
  sleep "$((fifths / 5)).$((fifths % 5 * 2))" &
  wait $!
}

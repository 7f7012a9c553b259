# How the scripts wait. Counted in fifths of a second, for the clock may be set meanwhile. A nap is a fifth of what was
# waited, and no more than 2 s: looks at a table of 100,000 routes take their time as well.
nap() {
  local fifths=$((1 + waited / 5)) left=$((wait * 5 - waited))
  ((fifths > 10)) && fifths=10
  ((fifths > left)) && fifths=$left
  ((waited += fifths))
  # In the background: so the shell hears at once that it is told to stop.
  sleep "$((fifths / 5)).$((fifths % 5 * 2))" &
  wait $!
}

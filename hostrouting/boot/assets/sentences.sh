# What is said. A text for programs of awk.
# Variables: sentence, words_for
sentences='
# The sentence with this name. Each {HOLE} in it is filled with words_for["HOLE"], which the caller
# has set before: it is global, because awk has no other way to pass values by name. A hole in such
# a value, which may be the name of a device, is not filled.
function in_words(name,   left, done, hole) {
  left = name in sentence ? sentence[name] : "no sentence is called " name
  while (match(left, /[{][a-z]+[}]/)) {
    hole = substr(left, RSTART + 1, RLENGTH - 2)
    done = done substr(left, 1, RSTART - 1) words_for[hole]
    left = substr(left, RSTART + RLENGTH)
  }
  return done left
}
function read_sentence(   its_words) {
  its_words = $0
  sub(/^sentence [^ ]+ /, "", its_words)
  sentence[$2] = its_words
}
'

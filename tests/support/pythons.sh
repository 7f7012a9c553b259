#!/bin/bash
# Prints the oldest and the newest Python of this machine that the project supports, for `make pythons`: one path in each
# line, without the version of the interpreter that is given. It looks in PATH and in pyenv's versions.
set -euo pipefail
version_of() { "$1" -c 'import sys, venv; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

found=()
for version in 3.{10..20}; do
  for python in "$(command -v "python$version" || true)" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    # pyenv puts a command into PATH for each version, and the command works only for a version that is activated.
    if [[ -x $python && $(version_of "$python") == "$version" ]]; then
      found+=("$python")
      break
    fi
  done
done
oldest=$(version_of "${found[0]}")
[[ $oldest == 3.10 ]] || echo "Python 3.10 is not installed: the oldest version here is $oldest" >&2
for python in "${found[0]}" "${found[-1]}"; do
  [[ $(version_of "$python") == "$(version_of "$1")" ]] || echo "$python"
done | uniq

#!/usr/bin/env bash
# The checklist for a release. `make release` runs it: each step is checked here, and the last ones are printed for you.
# It changes nothing outside dist/ and .cache/, and publishes nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C.UTF-8

python=${1:?usage: release.sh PYTHON}
version=$("$python" -c 'from hostrouting.release import __version__; print(__version__)')
number=0

step() { # MEANING COMMAND…
  number=$((number + 1))
  printf '%2d. %s\n' "$number" "$1"
  shift
  "$@" >.cache/release.log 2>&1 || {
    tail -n 20 .cache/release.log >&2
    printf 'release: step %d has failed; all of its output: .cache/release.log\n' "$number" >&2
    exit 1
  }
}

is_clean() { [[ -z $(git status --porcelain) ]] || { git status --short; return 1; }; }
has_entry() {
  grep -qE "^## ${version//./\\.} - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md || {
    echo "CHANGELOG.md needs the line: ## $version - $(date +%F)"
    return 1
  }
}
is_new() { ! git rev-parse --quiet --verify "refs/tags/v$version" || { echo "the tag v$version exists"; return 1; }; }
has_address() {
  grep -qE '^repository = "https://[^"]+"$' pyproject.toml || {
    echo 'pyproject.toml: tool.hostrouting.repository has no address, so the links on an index lead nowhere'
    return 1
  }
}

mkdir -p .cache
echo "hostrouting $version"
step 'nothing is uncommitted' is_clean
step 'the changelog has this version, with its date' has_entry
step 'the version has no tag yet' is_new
step 'the address of the repository is known' has_address
step 'every check and every test, with each Python and each Debian, and the packages' env CI=true make nightly
step 'the speed: read docs/benchmarks.md before you go on' make bench ARGS=--write
step 'the files are still those of the commit, except for the speed' git diff --quiet -- . ':!docs/benchmarks.md' ':!tests/benchmarks/speed.svg'

cat <<END
All of it is fine. What is left is yours:
  git add docs/benchmarks.md tests/benchmarks/speed.svg && git commit -m 'Speed of $version'   # if the figures changed
  git tag -s v$version -m 'hostrouting $version' && git push --follow-tags
  .venv/bin/twine upload dist/*.whl dist/*.tar.gz
  add dist/*.deb and dist/hostrouting.pyz to the release, with the changelog's text
END

#!/bin/bash
# Builds all that is published, from the last commit, and checks it: build_dist.sh PYTHON DIRECTORY
# The same commit and the same versions of hatchling and of the dependencies give the same bytes.
set -euo pipefail
umask 022
python=$(realpath --no-symlinks "$1")
mkdir -p "$2"
target=$(realpath "$2")
if [[ $(git status --porcelain) ]]; then
  echo 'what is not committed is not built' >&2
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/dist"
git archive HEAD | tar -x -C "$work/source"
cd "$work/source"
if grep -q '^repository = ""$' pyproject.toml; then
  echo 'pyproject.toml has no [tool.hostrouting] repository: what is built names none, and its README has no links' >&2
fi
"$python" -m hatchling build --directory ../dist >/dev/null
"$python" -m tests.support.zipped ../dist/hostrouting.pyz
"$python" -m tests.support.debian_package ../dist >/dev/null
if command -v rpmbuild >/dev/null; then
  "$python" -m tests.support.rpm_package ../dist >/dev/null
else
  echo 'rpmbuild is not installed: there is no rpm' >&2
fi
"$python" -m twine check --strict ../dist/*.whl ../dist/*.tar.gz
if command -v lintian >/dev/null; then
  lintian --allow-root --fail-on error,warning,info --display-info ../dist/*.deb
else
  echo 'lintian is not installed: the Debian package was not checked' >&2
fi

"$python" -m tests.support.sbom ../dist

cd ../dist
sha256sum -- * >SHA256SUMS
rm -f "$target"/{hostrouting*,SHA256SUMS}
cp -- * "$target"
cat SHA256SUMS

#!/usr/bin/env bash
# Creates a Node.js environment with the given packages once, outside the checkout, and prints its
# folder. Usage: node-env.sh NAME PACKAGE…  Exits with 1 and the reason if it cannot be created.
set -euo pipefail
name=$1
shift
folder="${ASSIZE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/assize}/node/$name"
made="$folder/.made-with"
mkdir -p "$(dirname "$folder")"
# Tests run in parallel: one creates the environment, the others wait for it.
exec 9>"$folder.lock"
if command -v flock >/dev/null; then flock 9; fi
if [ "$(cat "$made" 2>/dev/null)" != "$*" ]; then
  command -v node >/dev/null || { echo "there is no node" >&2; exit 1; }
  command -v npm >/dev/null || { echo "there is no npm" >&2; exit 1; }
  rm -rf "$folder"
  mkdir -p "$folder"
  npm install --prefix "$folder" --no-fund --no-audit --ignore-scripts "$@" >&2 ||
    { rm -rf "$folder"; echo "cannot install $*" >&2; exit 1; }
  echo "$*" >"$made"
fi
echo "$folder"

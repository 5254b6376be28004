#!/usr/bin/env bash
# Installs Claude Code from the npm registry once, outside the checkout, and prints its path.
# Exits with 1 and the reason if it cannot be installed.
set -euo pipefail
folder="${ASSIZE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/assize}/agents"
program="$folder/node_modules/.bin/claude"
if [ ! -x "$program" ]; then
  command -v npm >/dev/null || { echo "npm is not installed" >&2; exit 1; }
  mkdir -p "$folder"
  npm install --silent --no-fund --no-audit --prefix "$folder" @anthropic-ai/claude-code >&2 ||
    { echo "cannot install @anthropic-ai/claude-code" >&2; exit 1; }
fi
"$program" --version >/dev/null || { echo "Claude Code does not run here" >&2; exit 1; }
echo "$program"

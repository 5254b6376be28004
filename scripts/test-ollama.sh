#!/bin/sh
# Runs the end-to-end grid against a real Ollama: the one on the PATH, or one that is built from
# source once (Go, gcc and g++; 10 to 30 minutes on two cores) and cached.
set -eu
cd "$(dirname "$0")/.."

# The last release whose binary includes the CPU engine; later ones need a separate server.
VERSION=v0.24.0
FOLDER="${XDG_CACHE_HOME:-$HOME/.cache}/assize/ollama/bin"

build() {
  for tool in go gcc g++ python3; do
    command -v "$tool" >/dev/null 2>&1 && continue
    echo "Missing: $tool, to build Ollama $VERSION." >&2
    echo "Install it (Go 1.24 or newer: https://go.dev/dl), or install Ollama itself (https://ollama.com/download), then run this again." >&2
    exit 1
  done
  # Archives of Go modules leave out every folder called vendor, and so the headers that
  # Ollama's llama.cpp keeps there. The crate behind our embedded engine has the same ones.
  headers=$(cargo metadata --format-version 1 --locked | python3 -c '
import json, pathlib, sys
packages = json.load(sys.stdin)["packages"]
manifest = next(it["manifest_path"] for it in packages if it["name"] == "llama-cpp-sys-2")
print(pathlib.Path(manifest).parent / "llama.cpp" / "vendor")')
  echo "Building Ollama $VERSION into $FOLDER; this takes 10 to 30 minutes, once." >&2
  mkdir -p "$FOLDER"
  CPLUS_INCLUDE_PATH="$headers" CGO_ENABLED=1 GOBIN="$FOLDER" nice \
    go install "github.com/ollama/ollama@$VERSION"
}

if ! command -v ollama >/dev/null 2>&1; then
  [ -x "$FOLDER/ollama" ] || build
  PATH="$FOLDER:$PATH"
  export PATH
fi

exec "${CARGO:-cargo}" test --release --locked --test engine ollama:: -- --nocapture

#!/bin/sh
# Prints the path of a LiteLLM proxy for the tests, after installing it into a virtual environment
# (about 330 MB) if necessary. Exits with 1 and the reason if it cannot be installed.
set -eu
VERSION=1.106.2
FOLDER="${ASSIZE_LITELLM_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/assize/litellm-venv}"

if [ ! -e "$FOLDER/ready-$VERSION" ]; then
  rm -rf "$FOLDER"
  {
    if command -v uv >/dev/null 2>&1; then
      uv venv "$FOLDER" && uv pip install --python "$FOLDER/bin/python" "litellm[proxy]==$VERSION" prisma
    else
      python3 -m venv "$FOLDER" && "$FOLDER/bin/python" -m pip install -q "litellm[proxy]==$VERSION" prisma
    fi
  } >&2 || {
    rm -rf "$FOLDER"
    echo "LiteLLM $VERSION cannot be installed here (no package index, or no Python 3.10 or newer)"
    exit 1
  }
  touch "$FOLDER/ready-$VERSION"
fi
echo "$FOLDER/bin/litellm"

#!/bin/sh
# Checks for everything that the build needs: Rust, a C++ compiler, cmake, libclang, and Python 3
# with pip (which downloads the embedded model's weights). Installs what is missing if it can (as
# root on Debian-like systems), otherwise prints the command to run and stops.
set -eu

missing=""
need() { missing="$missing $1"; }

have_libclang() {
  [ -n "${LIBCLANG_PATH:-}" ] && return 0
  for place in /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/local/lib \
    /Library/Developer/CommandLineTools/usr/lib \
    /Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib \
    /opt/homebrew/opt/llvm/lib /usr/local/opt/llvm/lib; do
    for file in "$place"/libclang.so "$place"/libclang.so.* "$place"/libclang-*.so* "$place"/libclang.dylib; do
      [ -e "$file" ] && return 0
    done
  done
  return 1
}

# bindgen also needs clang's own headers; a bare libclang (which other packages bring) has none.
have_clang_headers() {
  [ -n "${BINDGEN_EXTRA_CLANG_ARGS:-}" ] && return 0
  for file in /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib/clang/*/include/stddef.h \
    /usr/lib64/clang/*/include/stddef.h; do
    [ -e "$file" ] && return 0
  done
  [ "$(uname -s)" = Darwin ]
}

command -v c++ >/dev/null 2>&1 || need g++
command -v make >/dev/null 2>&1 || need make
command -v cmake >/dev/null 2>&1 || need cmake
{ have_libclang && have_clang_headers; } || need libclang-dev
command -v python3 >/dev/null 2>&1 || need python3
python3 -m pip --version >/dev/null 2>&1 || need python3-pip

if [ -n "$missing" ]; then
  if [ "$(uname -s)" = Darwin ]; then
    echo "Missing:$missing" >&2
    echo "Type: xcode-select --install; brew install cmake python3" >&2
    exit 1
  elif command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing:$missing" >&2
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
  elif command -v apt-get >/dev/null 2>&1; then
    echo "Missing:$missing" >&2
    echo "Type: sudo apt-get update && sudo apt-get install -y$missing" >&2
    exit 1
  else
    echo "Missing (Debian's names):$missing" >&2
    echo "Install them with your package manager, then run this again." >&2
    exit 1
  fi
fi

if ! command -v cargo >/dev/null 2>&1; then
  echo "Missing: Rust. Install it from https://rustup.rs, then run this again." >&2
  exit 1
fi

#!/bin/sh
# Checks licences, sources and known vulnerabilities of all dependencies. The advisory database is
# downloaded; if that fails, the rest is still checked.
set -eu
cd "$(dirname "$0")/.."
if ! command -v cargo-deny >/dev/null 2>&1; then
  echo "SKIPPED: cargo deny is not installed (cargo install cargo-deny)" >&2
  exit 0
fi
cargo deny --log-level error --all-features check bans licenses sources
if cargo deny --log-level off fetch db >/dev/null 2>&1; then
  cargo deny --log-level error --all-features check advisories
else
  echo "SKIPPED: the list of known weaknesses cannot be fetched here" >&2
fi

#!/usr/bin/env bash
# Fuzz with the stable toolchain: `run.sh SECONDS TARGET...`; without targets, all of them. SEED fixes what is tried, and
# RUNS how much of it instead of the seconds, so that CI fails over a change and not over luck or load; without a seed every
# run tries something else. JOBS targets run at once.
#
# cargo-fuzz is not needed: what it adds to a build are the flags below, which stable takes. They instrument what is ours,
# for coverage and comparisons; there is no address sanitizer (that one wants nightly), which code without `unsafe` does not miss.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
shift || true
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(basename -s .rs targets/*.rs)

export INSTRUMENT="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/../../target}
RUSTC_WRAPPER=$PWD/instrument.sh cargo build -q --config ../../Cargo.toml --profile checkout --locked
built=$CARGO_TARGET_DIR/checkout
until=-max_total_time=$seconds
[ -z "${RUNS:-}" ] || until=-runs=$RUNS

fuzz() {
  local target=$1 log
  mkdir -p "corpus/$target" artifacts
  # New inputs go to corpus/, which is not committed; seeds/ is small and is.
  log=$(mktemp)
  if ! "$built/$target" "corpus/$target" "seeds/$target" "$until" -seed="${SEED:-0}" -max_len=4096 -timeout=20 \
    -rss_limit_mb=2048 -artifact_prefix="artifacts/$target-" >"$log" 2>&1; then
    tail -n 40 "$log"
    echo "$target failed; the input is in rust/fuzz/artifacts, run it again with: $built/$target FILE" >&2
    return 1
  fi
  echo "fuzzed $target: $(grep -E '^(Done|stat::)|DONE' "$log" | tail -n 1)"
}
export -f fuzz
export built until
printf '%s\n' "${targets[@]}" | xargs -P "${JOBS:-1}" -I TARGET bash -c 'fuzz TARGET'

# The two commands that matter: `make demo` and `make test`. Both do all set-up.
# One release build serves demo, tests and benchmarks: llama.cpp takes minutes to compile.

CARGO ?= cargo
BIN = $${CARGO_TARGET_DIR:-target}/release/assize

.PHONY: demo test lint bench bench-mlflow fuzz setup build weights quick test-ollama test-airflow test-ray stress injection calibrate calibrate-loop scale

## demo: build, fetch the small embedded model, and run the whole job with it
demo: build
	@$(BIN) demo

## test: everything, with the embedded engine and a real model
test: weights
	@$(CARGO) test --release --workspace --locked

## quick: daily work, without the embedded engine (seconds instead of minutes)
quick:
	@$(CARGO) test --no-default-features --workspace --exclude assize-llama

## lint: formatting, clippy, licences
lint: setup
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings
	@scripts/deny.sh

## bench: every benchmark, each with its baseline
bench: weights
	@scripts/bench.sh

## bench-mlflow: `assize serve` compared with a real MLflow server
bench-mlflow: setup
	@$(CARGO) bench --locked --bench mlflow

## fuzz: mutated filters and requests for an hour
fuzz: setup
	@ASSIZE_FUZZ_SECONDS=3600 $(CARGO) test --release --locked --test mlflow fuzz:: -- --nocapture

## test-ollama: the grid against a real Ollama, which is built if it is not installed
test-ollama: weights
	@scripts/test-ollama.sh

## test-airflow: a whole Airflow on loopback, triggered over REST and from `assize serve` in a browser
test-airflow:
	@$(CARGO) test --release --locked --test integrations airflow_stack:: -- --ignored --nocapture

## test-ray: a grid on a real Ray cluster of two nodes, with a worker killed in the middle
test-ray:
	@$(CARGO) test --release --locked --test integrations packages::ray -- --ignored --nocapture

## calibrate: the error rates and power of the gates, by simulation
calibrate:
	@$(CARGO) run --release --locked --quiet -p assize-pipeline --example calibrate 20000 docs/images/power-by-scenarios.svg
	@$(CARGO) run --release --locked --quiet -p assize-policy --example false_promotions

## scale: wall time and cost of a collection by the number of hosts, by simulation of the scheduler
scale:
	@$(CARGO) run --release --locked --quiet -p assize-schedule --example scale docs/images/hosts.svg

## calibrate-loop: error rates, power and cost of the prompt loop, by simulation, beside GEPA's rule
calibrate-loop:
	@$(CARGO) run --release --locked --quiet -p assize-pipeline --example calibrate_loop 20000

## stress: 200 kills during a collection and a prompt loop, 1,000 around rewards of policies; nothing is lost or counted twice
stress: build
	@ASSIZE_STRESS_KILLS=200 $(CARGO) test --release --locked --test faults killed_collect:: -- --nocapture
	@ASSIZE_STRESS_KILLS=200 $(CARGO) test --release --locked --test optimise interrupted:: -- --nocapture
	@ASSIZE_STRESS_KILLS=1000 $(CARGO) test --release --locked --test serve policies::killed:: -- --nocapture

## injection: fifty prompt injections against the embedded judge
injection: weights
	@$(CARGO) run --release --locked --example injection -- $(BIN)

build: setup
	@$(CARGO) build --release --locked

weights: build
	@$(BIN) models pull smollm2-135m

setup:
	@scripts/setup.sh

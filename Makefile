# The commands of the project; each is a script that says what it does. `make help` lists them.
.PHONY: help setup setup-check build train test check conformance soak gpu bench lint format clean
.DEFAULT_GOAL := help

help:
	@echo "make setup    install what is missing: Debian packages, torch and pytest into .venv"
	@echo "make build    build/bin/lockstep and everything else, optimised"
	@echo "make train    two ranks train a convnet on Fashion-MNIST; its accuracy is printed"
	@echo "make test     install what is missing and run the tests: release, both sanitizers"
	@echo "make check    what takes longer: clang, long tests, clang-tidy, sanitizers over torch parts"
	@echo "make conformance   PyTorch's own distributed tests, with Gloo and with lockstep"
	@echo "make soak     kill, start and fuzz loops (SOAK_SECONDS=60 for each fuzz target)"
	@echo "make gpu      on a machine with a GPU: its tests, memcheck, and its rows of the benchmarks"
	@echo "make bench    our numbers beside the peers': start-up, all_reduce, training steps"
	@echo "make lint     clang-format and clang-tidy; make format writes the layout"
	@echo "make clean    remove build/; .venv stays"

setup:
	@scripts/setup.sh

setup-check:
	@scripts/setup.sh check

build: setup
	@scripts/build.sh release

train: setup
	@scripts/build.sh release programs
	build/bin/lockstep train --nproc 2 --epochs 5 --lr 0.05

test:
	@scripts/test.sh

check: setup-check
	@scripts/check.sh

conformance: setup
	@scripts/conformance.sh

soak: setup-check
	@scripts/soak.sh

gpu: setup
	@scripts/gpu.sh

bench: build
	build/bin/lockstep bench startup
	build/bin/lockstep bench allreduce
	build/bin/lockstep bench step

lint: setup-check
	@scripts/lint.sh

format: setup-check
	@scripts/lint.sh format

clean:
	rm -rf build

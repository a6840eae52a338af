#!/usr/bin/env bash
# scripts/build.sh PRESET [TARGET...]: configures and builds one preset of CMakePresets.json.
source "$(dirname "$0")/common.sh"
build "${@:-release}"

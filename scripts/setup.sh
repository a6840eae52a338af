#!/usr/bin/env bash
# Installs what is missing to build and test lockstep; a second run installs nothing.
#
#   scripts/setup.sh          what `make build` and `make train` need
#   scripts/setup.sh test     also clang, for the build with AddressSanitizer
#   scripts/setup.sh check    also clang-tidy, clang-format and libFuzzer
#
# Debian packages by name (as root or with sudo), torch and pytest into .venv. `packages` as a second word installs the
# first alone, which are enough for the layers without torch; `venv` the second alone. With LIBTORCH_ROOT or
# LOCKSTEP_PYTHON set, that one is used and no .venv is made. LOCKSTEP_SETUP=off installs nothing.
source "$(dirname "$0")/common.sh"

packages=(g++ make cmake ninja-build ccache mold libgtest-dev libgmock-dev libcli11-dev
  nlohmann-json3-dev zlib1g-dev libjpeg-dev libpng-dev python3-dev iproute2 openmpi-bin libopenmpi-dev)
test_packages=(clang-19 libclang-rt-19-dev)
check_packages=("${test_packages[@]}" clang-format-19 libfuzzer-19-dev)

missing_packages() {
  local package
  for package in "$@"; do
    if [[ $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) != installed ]]; then
      echo "$package"
    fi
  done
}

install_packages() {
  command -v dpkg-query >/dev/null ||
    die "this is not Debian or Ubuntu: install the counterparts of: $* and set LOCKSTEP_SETUP=off"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) && return 0

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "not root and no sudo; as root, run: apt-get install -y ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing Debian packages: ${missing[*]}"
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
  "${as_root[@]}" update ||
    die "apt-get update: see its message above; the machine needs a reachable package source"
  "${as_root[@]}" install -y --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}; see its message above"
}

# install_if_possible MEANING PACKAGE...: goes on without them where there are none, and says what that means.
install_if_possible() {
  local meaning=$1
  shift
  if [[ -n $(missing_packages "$@") ]]; then
    (install_packages "$@") || say "going on without $*: $meaning"
  fi
}

is_usable_python() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# The first Python of 3.11 or newer that can make a virtual environment; Debian's if need be.
find_python() {
  python=python3
  is_usable_python "$python" && return
  install_packages python3 python3-venv
  python=/usr/bin/python3
  is_usable_python "$python" || die "$python is older than 3.11; set LOCKSTEP_PYTHON to a newer one with torch"
}

# Changes with this script, with the requirements and with anything installed or removed.
venv_stamp() {
  {
    cat scripts/setup.sh requirements.txt
    .venv/bin/python - <<'PY'
import importlib.metadata as metadata, sys
print(sys.version, *sorted(f"{d.metadata['Name']}=={d.version}" for d in metadata.distributions()))
PY
  } | sha256sum
}

install_venv() {
  local stamp=.venv/lockstep-stamp
  if [[ -f $stamp ]] && [[ $(venv_stamp 2>/dev/null) == "$(<$stamp)" ]]; then
    return
  fi
  local start=$SECONDS
  if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    find_python
    say "creating .venv with $("$python" --version)"
    "$python" -m venv --clear .venv || die "$python -m venv .venv: see its message above"
  fi
  say "installing $(sed -n 's/^torch==/torch /p' requirements.txt) and test tools into .venv (5.7 GB)"
  # One line for each package: minutes of silence look like a hang.
  .venv/bin/python -m pip install --disable-pip-version-check --no-input --progress-bar off \
    -r requirements.txt | sed -un -E 's/^ *(Downloading|Installing collected).*/&/p' | cut -c1-100 ||
    die "pip could not install requirements.txt into .venv: see its message above; the machine needs a" \
      "reachable package index and 6 GB of disk, or set LOCKSTEP_PYTHON to a Python that has what requirements.txt lists"
  venv_stamp >"$stamp"
  say ".venv: $(du -sh .venv | cut -f1) after $((SECONDS - start)) s"
}

# clang-tidy by itself, newer than Debian's: since release 21 it leaves the headers of others alone,
# which makes a file that includes torch three times as fast.
clang_tidy_version=23.1.4
install_clang_tidy() {
  [[ $(.venv-lint/bin/clang-tidy --version 2>/dev/null) == *"$clang_tidy_version"* ]] && return
  find_python
  say "installing clang-tidy $clang_tidy_version into .venv-lint"
  "$python" -m venv --clear .venv-lint || die "$python -m venv .venv-lint: see its message above"
  .venv-lint/bin/python -m pip install --disable-pip-version-check --no-input -q --progress-bar off \
    "clang-tidy==$clang_tidy_version" ||
    die "pip could not install clang-tidy into .venv-lint: see its message above"
}

install_all_packages() {
  local wanted=("${packages[@]}")
  [[ $1 == check ]] && wanted+=("${check_packages[@]}")
  install_packages "${wanted[@]}"
  install_if_possible "images are made for make train" dataset-fashion-mnist
  if [[ $1 == test ]]; then
    install_if_possible "g++ makes the build with AddressSanitizer, in twice the time" "${test_packages[@]}"
  fi
}

install_python_packages() {
  [[ $1 == check ]] && install_clang_tidy
  if [[ -n ${LOCKSTEP_PYTHON:-} || -n ${LIBTORCH_ROOT:-} ]]; then
    say "using ${LOCKSTEP_PYTHON:-LibTorch at $LIBTORCH_ROOT}; no .venv"
  else
    install_venv
  fi
}

# main [test|check] [packages|venv]
main() {
  local purpose=${1:-} part=${2:-}
  [[ ${LOCKSTEP_SETUP:-on} == off ]] && return
  [[ $part == venv ]] || install_all_packages "$purpose"
  [[ $part == packages ]] || install_python_packages "$purpose"
}

main "$@"

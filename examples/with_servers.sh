#!/bin/sh
# Runs a program with a file system of its own that goes away with it.
# usage: with_servers.sh WEIR PROGRAM [ARGUMENT...]
set -eu

weir=$1
shift
folder=$(mktemp -d)
WEIR_FS=$folder/fs.toml
export WEIR_FS
trap '"$weir" down >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM

"$weir" up --servers 4 >/dev/null
"$@"

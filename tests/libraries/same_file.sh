# shellcheck shell=sh
#
# To be sourced by the tests here: runs a program of an I/O library, unchanged, on a local disk and through `weir run`, and compares
# the files byte for byte.  Sets the trap and the folder `work`.

# Ranks that write, and those that go on with the file.
write_ranks=3
update_ranks=2

skip() {
  echo "skipped: $*"
  exit 77
}

fail() {
  echo "FAILED: $*"
  exit 1
}

# need_program PROGRAM PACKAGE
need_program() {
  command -v "$1" >/dev/null || skip "no $1 here (package $2)"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir "$work/local" "$work/weir"

# Bytes that a program never wrote are the only ones that may differ: zero in Weir.  MPI libraries that read, change and write back larger
# pieces leave there what their buffers held, unless they are told not to.  Both MPIs have ROMIO, which can be told.
openmpi_io=romio321
printf 'romio_cb_write disable\nromio_ds_write disable\n' >"$work/hints"
on_local_disk() {
  ROMIO_HINTS=$work/hints OMPI_MCA_io=$openmpi_io "$@"
}

# same_file WEIR LAUNCHER... -- PROGRAM [ARGUMENT...]
#
# The program is called with `write` and `update`, its arguments, and the file as the last one.
same_file() {
  weir=$1
  shift
  launcher=
  while [ "$1" != -- ]; do
    launcher="$launcher $1"
    shift
  done
  shift
  program=$1
  shift
  # The launcher's words have no blanks and are meant to be split; so are those of an interpreter and its script.
  # shellcheck disable=SC2086
  {
    on_local_disk $launcher -n $write_ranks $program write "$@" "$work/local/file" || fail "write to a local file: code $?"
    cp "$work/local/file" "$work/local/written"
    on_local_disk $launcher -n $update_ranks $program update "$@" "$work/local/file" || fail "update of a local file: code $?"

    "$weir" run --servers 2 --timeout 100 --stage-out "/file:$work/weir/written" -- \
      $launcher -n $write_ranks $program write "$@" weir:/file || fail "write through weir run: code $?"
    cmp "$work/local/written" "$work/weir/written" || fail "other bytes were written than on a local disk"
    "$weir" run --servers 2 --timeout 100 --stage-in "$work/weir/written:/file" --stage-out "/file:$work/weir/file" -- \
      $launcher -n $update_ranks $program update "$@" weir:/file || fail "update through weir run: code $?"
    cmp "$work/local/file" "$work/weir/file" || fail "the update wrote other bytes than on a local disk"
  }
  echo "$* $(wc -c <"$work/weir/file") bytes: the same"
  rm -f "$work"/*/*
}

#!/bin/sh
# A guided tour: one matrix, four processes, three ways to store it; then servers that hold it.
# usage: examples/tour.sh [PICTURE.svg]      The command is $WEIR, or weir on the path.
set -eu

weir=${WEIR:-weir}
picture=${1:-tour.svg}

say() {
  printf '\n'
  printf '%s\n' "$@"
}

fail() {
  echo "tour.sh: $*" >&2
  exit 1
}

# Shows the command as one would type it, then runs it and shows its answer, or only the first $lines lines of that.
run() {
  printf '\n  $ weir'
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_./-]*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n\n'
  answer=$("$weir" "$@") # not a pipe, so that a failure ends the tour
  printf '%s\n' "$answer" | sed -n "1,${lines:-999} s/^/    /p"
}

columns='hpf(shape=[16,16], dist=(*,BLOCK), grid=[1,4])'
stripes='stripe(unit=32, over=4)'
tiles='tiles(shape=[16,16], tile=[8,8], over=4)'

say '1. A layout is one line of text.  This one deals a 16 x 16 matrix of bytes, stored row by row in a file, to four' \
  '   processes by blocks of columns.  Each process is an element; its bytes are a family of equal, equally spaced' \
  '   segments (first, last, stride, count).'
run layout show "$columns"

say '2. Where does a byte live?  Byte 37 of the file is row 2, column 5: it belongs to process 1, which finds it at offset 9' \
  '   of its own bytes.  And back again.'
run layout map "$columns" 37
run layout unmap "$columns" 9 --element 1

say '3. The file is stored in stripes of 32 bytes over four targets.  Which bytes of process 1 are on target 1, and where on' \
  '   each side?  The answer is a pattern, not a list: it is as short for a matrix of terabytes.'
run layout intersect "$columns" "$stripes" --a-element 1 --b-element 1 --pieces

n=1048576
say "4. The same question for a matrix of $n x $n doubles, 8 terabytes, in stripes of 64K:"
run layout intersect "hpf(shape=[$n,$n], elem=8, dist=(*,BLOCK), grid=[1,4])" 'stripe(unit=64K, over=4)' \
  --a-element 1 --b-element 1

say '5. How well do columns fit three layouts?  A matrix of 4096 x 4096 doubles; 1 is perfect: each access is one piece on' \
  '   one target.'
matrix='hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])'
for layout in 'stripe(unit=64K, over=4)' 'tiles(shape=[4096,4096], elem=8, tile=[256,256], over=4)' "$matrix"; do
  lines=2 run layout match "$matrix" "$layout" --element 1
done

say '6. An invalid layout is rejected, and the message names the byte.'
overlapping='falls({(0,3,-,1)} | {(3,7,-,1)})'
printf "\n  \$ weir layout validate '%s'\n\n" "$overlapping"
answer=$("$weir" layout validate "$overlapping" 2>&1) && fail "the overlapping layout was not refused"
printf '%s\n' "$answer" | sed 's/^/    /'
case $answer in
  *'byte 3'*) ;;
  *) fail "the refusal does not name byte 3" ;;
esac

say '7. And a picture to keep.'
run layout show "$tiles" --no-tree --svg "$picture"
[ -s "$picture" ] || fail "$picture was not written"
say "The picture is in $picture"

say '8. All of that moves data.  Two servers of our own, in memory, until the end of this tour; a matrix of 1024 x 1024 doubles,' \
  '   stored by blocks of columns; and one block of columns read back, as one piece.'
folder=$(mktemp -d)
WEIR_FS=$folder/fs.toml
export WEIR_FS
trap '"$weir" down >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM
head -c 8388608 /dev/urandom >"$folder/matrix.dat"
doubles='hpf(shape=[1024,1024], elem=8, dist=(*,BLOCK), grid=[1,2])'
run up --servers 2 --connection "$WEIR_FS" --capacity 256M
run put "$folder/matrix.dat" /matrix --layout "$doubles" --verify
run stat /matrix
run get /matrix "$folder/columns.dat" --view "$doubles" --element 1
run relayout /matrix 'stripe(unit=64K, over=2)'
run get /matrix "$folder/copy.dat"
cmp "$folder/matrix.dat" "$folder/copy.dat" || fail "the copy differs"
[ "$(wc -c <"$folder/columns.dat")" -eq 4194304 ] || fail "the columns are not half of the matrix"
run status
run down

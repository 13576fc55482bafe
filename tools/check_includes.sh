#!/bin/sh
# Fails if a source includes a header of a component that its own does not declare in its CMakeLists.txt, or a header in another's internal/.
# Declared is what weir_add_library, and for tests, benchmarks and fuzzers what weir_add_test, weir_add_benchmark and weir_add_fuzzer are given, with what those show
# in their own headers (DEPENDS).  Fails, too, if docs/ARCHITECTURE.md lists other uses of a component than its CMakeLists.txt declares, or
# a component has no README.md.
set -eu
cd "$(dirname "$0")/.."

{
  for list in src/weir/*/CMakeLists.txt; do
    component=${list#src/weir/}
    [ -e "${list%/*}/README.md" ] || echo "missing ${list%/*}/README.md"
    # Calls in one line each.
    tr '\n' ' ' <"$list" | grep -oE '(weir_add(_mpi)?_(library|test|benchmark|fuzzer)\(|target_link_libraries\(weir_[a-z]*_core )[^)]*\)' | sed "s|^|declare ${component%/*} |" || :
  done
  # shellcheck disable=SC2016  # the quotes of the page
  sed -n 's/^| `\([a-z]*\)` | \([`a-z, ]*\) | .* | .* |$/uses \1 \2/p' docs/ARCHITECTURE.md | tr -d '`,'
  grep -rnE '^#include <weir/' src bench apps examples tests --include='*.h' --include='*.cpp' --include='*.c' | sed 's|^|include |'
} | awk '
  function kind_of(file) {
    if (file ~ /_bench\.cpp$/) return "benchmark"
    if (file ~ /_fuzz\.cpp$/) return "fuzzer"
    if (file ~ /_test\.cpp$|\/testing\/|testing\.h$|\/programs\//) return "test"
    return "library"
  }
  # All that `component` shows in its headers.
  function show(component, all,   i, count, names) {
    if (component in all) return
    all[component] = 1
    count = split(shown[component], names)
    for (i = 1; i <= count; ++i) show(names[i], all)
  }
  function is_declared(component, kind, other,   all, i, count, names) {
    count = split(shown[component] " " hidden[component] " " (kind == "library" ? "" : extra[component, kind]), names)
    for (i = 1; i <= count; ++i) show(names[i], all)
    return other in all
  }
  $1 == "missing" {
    print $2 " is missing"
    failed = 1
    next
  }
  $1 == "uses" {
    listed[$2] = 1
    for (i = 3; i <= NF; ++i) uses[$2, $i] = 1
    next
  }
  $1 == "declare" {
    declared[$2] = 1
    kind = "library"
    if (match($0, /weir_add_[a-z_]*/)) kind = substr($0, RSTART + 9, RLENGTH - 9)
    sub(/^mpi_/, "", kind)
    words = $0
    gsub(/[()]/, " ", words)
    count = split(words, word)
    into = ""
    for (i = 3; i <= count; ++i) {
      if (word[i] ~ /^(PRIVATE_)?DEPENDS$/) into = word[i]
      else if (word[i] == "PUBLIC") into = "DEPENDS"
      else if (word[i] ~ /^weir::/) {
        name = substr(word[i], 7)
        sub(/_(openmpi|mpich)$/, "", name)
        if (kind != "library") extra[$2, kind] = extra[$2, kind] " " name
        else if (into == "DEPENDS") shown[$2] = shown[$2] " " name
        else hidden[$2] = hidden[$2] " " name
      }
    }
    next
  }
  {
    split($2, place, ":")
    file = place[1]
    match($0, /<weir\/[^>]*>/)
    header = substr($0, RSTART + 1, RLENGTH - 2)
    split(header, part, "/")
    other = part[2]
    component = ""
    if (file ~ /^src\/weir\//) {
      split(file, folder, "/")
      component = folder[3]
    }
    if (component == other) next
    if (header ~ /\/internal\//) {
      print file ":" place[2] ": <" header "> is internal to " other
      failed = 1
    } else if (component != "" && !is_declared(component, kind_of(file), other)) {
      print file ":" place[2] ": <" header ">: CMakeLists.txt of " component " does not declare weir::" other
      failed = 1
    }
  }
  END {
    for (component in declared) {
      if (!(component in listed)) {
        print "docs/ARCHITECTURE.md: the table of components lacks " component
        failed = 1
      }
      count = split(shown[component] " " hidden[component], names)
      for (i = 1; i <= count; ++i) {
        known[component, names[i]] = 1
        if ((component, names[i]) in uses) continue
        print "docs/ARCHITECTURE.md: " component " uses " names[i] ", says its CMakeLists.txt; the table does not"
        failed = 1
      }
    }
    for (use in uses) {
      if (use in known) continue
      split(use, pair, SUBSEP)
      print "docs/ARCHITECTURE.md: " pair[1] " uses " pair[2] ", says the table; its CMakeLists.txt does not"
      failed = 1
    }
    exit failed
  }'

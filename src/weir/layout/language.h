#pragma once

// The layout language: one text form for command line, hints, metadata and logs.
//
//   layout   = "stripe" "(" unit= , over= [, disp=] ")"
//            | "hpf"    "(" shape= , [elem=] , dist= , grid= [, order=C|F] [, disp=] ")"
//            | "tiles"  "(" shape= , [elem=] , tile= , over= [, order=C|F] [, disp=] ")"
//            | "falls"  "(" [disp= ,] [period= ,] set { "|" set } ")"
//   set      = "{" [ falls { "," falls } ] "}"
//   falls    = "(" l "," r "," ( s | "-" ) "," n [ "," set ] ")"
//   number   = digits [ K | M | G | T ]                                    (powers of 1024)
//
// Arguments by name come in any order; white space is free.  Printing is canonical: parse(print(p)) == p, and
// print(parse(t)) is the same for all t that mean the same description.

#include <string>
#include <string_view>

#include <weir/layout/partition.h>

namespace weir::layout {

/// \error kInvalidArgument; the message names the column, location() is the column (from 1).
Result<Partition> parse(std::string_view text);

/// A set "{(...),...}"; a single "(...)" is accepted too.  Checked.
Result<FallsSet> parse_falls(std::string_view text);

std::string print(const Partition& partition);
std::string print(const FallsSet& set);
std::string print(const Falls& falls);

}  // namespace weir::layout

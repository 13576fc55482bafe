#pragma once

// What the metadata service keeps in its key-value store.  Numbers in keys are big-endian, so that keys sort as numbers
// do.
//
//   "d" <directory> <name>   -> <number>               an entry of a directory
//   "i" <number>             -> Record                 a file or directory: attributes, and back to its entry
//   "r" <number>             -> Attributes             the file as it will be when the relayout under way is done
//   "x" <data>               -> Attributes             subfiles that are to be removed: `data` and `targets`; if `file` is not
//                                                      0, only after the sidecars of that file were written again
//   "q" <user>               -> <number> <number>      limits of a user: bytes, files; 2^64 - 1: none.  User 2^32 - 1:
//                                                      everybody else
//   "n"                      -> <number>               no number from here on was ever used
//   "f"                      -> Label                  which file system this is: see assembly.h
//
// Every change is one batch, so an entry and the record that points back to it come and go together.

#include <cstdint>
#include <string>
#include <string_view>

#include <weir/base/result.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

using FileNumber = std::uint64_t;

inline constexpr FileNumber kRoot = 1;

struct Record {
  FileNumber parent = 0;
  std::string name;
  wire::AttributesT attributes;
};

std::string entry_prefix(FileNumber directory);
std::string entry_key(FileNumber directory, std::string_view name);
std::string record_key(FileNumber number);
std::string relayout_key(FileNumber number);
std::string removal_key(FileNumber data);
inline constexpr std::string_view kRecordPrefix = "i";
inline constexpr std::string_view kRemovalPrefix = "x";
inline constexpr std::string_view kNextNumberKey = "n";

/// The number that a record's key names.  \pre `key` starts with kRecordPrefix
Result<FileNumber> number_of_key(std::string_view key);

std::string encode_number(FileNumber number);
Result<FileNumber> decode_number(std::string_view bytes);

std::string encode_record(const Record& record);
Result<Record> decode_record(std::string_view bytes);

std::string encode_attributes(const wire::AttributesT& attributes);
Result<wire::AttributesT> decode_attributes(std::string_view bytes);

}  // namespace weir::server::internal

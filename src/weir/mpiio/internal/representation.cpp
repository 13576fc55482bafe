#include <weir/mpiio/internal/representation.h>

#include <algorithm>
#include <climits>
#include <map>
#include <mutex>

namespace weir::mpiio::internal {

namespace {

constexpr const char* kExternal = "external32";
constexpr MPI_Count kMostItems = MPI_Count{1} << 20;  // in one call of a conversion function, whose counts are ints

// A buffer at MPI_BOTTOM, told from an address of ours: MPICH's MPI_Pack_external takes no null pointer.  Others are as
// they are.
class FromAnchor {
 public:
  explicit FromAnchor(const Buffer& given) : buffer_(given) {
    if (given.data != nullptr) return;
    static std::byte anchor;
    MPI_Aint address = 0;
    PMPI_Get_address(&anchor, &address);
    const MPI_Aint back = -address;
    if (PMPI_Type_create_hindexed_block(1, 1, &back, given.type, &moved_) != MPI_SUCCESS) return;
    PMPI_Type_commit(&moved_);
    buffer_ = {&anchor, given.count, moved_};
  }
  FromAnchor(const FromAnchor&) = delete;
  FromAnchor& operator=(const FromAnchor&) = delete;
  ~FromAnchor() {
    if (moved_ != MPI_DATATYPE_NULL) PMPI_Type_free(&moved_);
  }
  [[nodiscard]] const Buffer& get() const noexcept { return buffer_; }

 private:
  Buffer buffer_;
  MPI_Datatype moved_ = MPI_DATATYPE_NULL;
};

// The standard's own: big endian, fixed sizes.  The MPI knows how.
class External final : public Representation {
 public:
  [[nodiscard]] LeafSize leaf_size() const override { return LeafSize::kExternal32; }

  Status encode(const Buffer& buffer, Offset item_bytes, std::vector<std::byte>& file) const override {
    return each_piece(buffer, item_bytes, file.size(), [&](const Buffer& piece, Offset from, MPI_Aint bytes) {
      MPI_Aint at = 0;
      return PMPI_Pack_external(kExternal, piece.data, static_cast<int>(piece.count), piece.type, file.data() + from,
                                bytes, &at);
    });
  }

  Status decode(const std::vector<std::byte>& file, Offset item_bytes, const Buffer& buffer) const override {
    return each_piece(buffer, item_bytes, file.size(), [&](const Buffer& piece, Offset from, MPI_Aint bytes) {
      MPI_Aint at = 0;
      return PMPI_Unpack_external(kExternal, file.data() + from, bytes, &at, piece.data, static_cast<int>(piece.count),
                                  piece.type);
    });
  }

 private:
  template <typename Work>
  static Status each_piece(const Buffer& given, Offset item_bytes, std::size_t file_bytes, Work work) {
    const FromAnchor from_anchor(given);
    const Buffer& buffer = from_anchor.get();
    // MPIs are not of one mind about the length of MPI_LONG.
    MPI_Aint packed = 0;
    WEIR_RETURN_IF_ERROR(
        from_mpi(PMPI_Pack_external_size(kExternal, 1, buffer.type, &packed), "MPI_Pack_external_size"));
    if (packed != item_bytes) {
      return fail(MPI_ERR_CONVERSION, "this MPI packs the type into ", packed,
                  " bytes of external32, the standard says ", item_bytes,
                  ": use a type of fixed size, such as MPI_INT64_T");
    }
    const Offset extent = extent_of(buffer.type);
    for (MPI_Count done = 0; done < buffer.count; done += kMostItems) {
      const MPI_Count items = std::min(kMostItems, buffer.count - done);
      const Buffer piece{static_cast<std::byte*>(buffer.data) + done * extent, items, buffer.type};
      const Offset from = done * item_bytes;
      WEIR_RETURN_IF_ERROR(
          from_mpi(work(piece, from, static_cast<MPI_Aint>(static_cast<Offset>(file_bytes) - from)), kExternal));
    }
    return Status::ok();
  }
};

// A program's own, registered under a name.
class Registered final : public Representation {
 public:
  Registered(std::string name, const Conversions& conversions, LeafSize leaf_size)
      : name_(std::move(name)), conversions_(conversions), leaf_size_(leaf_size) {}

  [[nodiscard]] LeafSize leaf_size() const override { return leaf_size_; }

  Status encode(const Buffer& buffer, Offset item_bytes, std::vector<std::byte>& file) const override {
    return convert(conversions_.write, buffer, item_bytes, file.data());
  }
  Status decode(const std::vector<std::byte>& file, Offset item_bytes, const Buffer& buffer) const override {
    // The function's type is the same for both ways; it only reads here.
    return convert(conversions_.read, buffer, item_bytes, const_cast<std::byte*>(file.data()));
  }

 private:
  Status convert(const Conversion& function, const Buffer& buffer, Offset item_bytes, std::byte* file) const {
    for (MPI_Count done = 0; done < buffer.count; done += kMostItems) {
      const int items = static_cast<int>(std::min(kMostItems, buffer.count - done));
      const int code = function(buffer.data, buffer.type, items, file + done * item_bytes, done, conversions_.extra);
      if (code != MPI_SUCCESS) {
        return fail(MPI_ERR_CONVERSION, "data representation ", name_, ": its conversion function returned ", code);
      }
    }
    return Status::ok();
  }

  std::string name_;
  Conversions conversions_;
  LeafSize leaf_size_;
};

// Are basic types as long as `how` says?
bool has_lengths(const Conversions& conversions, LeafSize how) {
  for (const MPI_Datatype leaf : {MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_FLOAT, MPI_DOUBLE}) {
    MPI_Aint extent = 0;
    const Result<Typemap> map = decode(leaf, how);
    if (conversions.extent(leaf, &extent, conversions.extra) != MPI_SUCCESS || !map.is_ok() || map->size != extent) {
      return false;
    }
  }
  return true;
}

struct KnownRepresentations {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Representation>> by_name{
      {"native", nullptr}, {"internal", nullptr}, {kExternal, std::make_shared<External>()}};
};
KnownRepresentations& known_representations() {
  static auto* const all = new KnownRepresentations;
  return *all;
}

// The identity conversion: packs the items.
int copy_to_file(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void*) {
  int size = 0;
  int at = 0;
  PMPI_Type_size(type, &size);
  return PMPI_Pack(static_cast<std::byte*>(user) + position * extent_of(type), count, type, file, count * size, &at,
                   MPI_COMM_SELF);
}
int copy_from_file(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void*) {
  int size = 0;
  int at = 0;
  PMPI_Type_size(type, &size);
  return PMPI_Unpack(file, count * size, &at, static_cast<std::byte*>(user) + position * extent_of(type), count, type,
                     MPI_COMM_SELF);
}

}  // namespace

Status find_representation(const std::string& name, std::shared_ptr<const Representation>& found) {
  const std::lock_guard lock(known_representations().mutex);
  const auto entry = known_representations().by_name.find(name);
  if (entry == known_representations().by_name.end()) {
    std::string names;
    for (const auto& [other, unused] : known_representations().by_name)
      names += concat(names.empty() ? "" : ", ", other);
    return fail(MPI_ERR_UNSUPPORTED_DATAREP, "no data representation ", name, "; there are ", names,
                "; MPI_Register_datarep adds more");
  }
  found = entry->second;
  return Status::ok();
}

Status register_representation(const std::string& name, const Conversions& given) {
  if (name.empty() || name.size() >= MPI_MAX_DATAREP_STRING) {
    return fail(MPI_ERR_ARG, "MPI_Register_datarep: a name of 1 to ", MPI_MAX_DATAREP_STRING - 1,
                " characters is needed");
  }
  if (given.extent == nullptr)
    return fail(MPI_ERR_ARG, "MPI_Register_datarep ", name, ": there must be an extent function");
  Conversions conversions = given;
  if (!given.read) conversions.read = copy_from_file;
  if (!given.write) conversions.write = copy_to_file;
  const bool is_native = has_lengths(conversions, LeafSize::kNative);
  if (!is_native && !has_lengths(conversions, LeafSize::kExternal32)) {
    return fail(MPI_ERR_UNSUPPORTED_DATAREP, "MPI_Register_datarep ", name,
                ": basic types must be as long as in memory or as in external32");
  }
  const std::lock_guard lock(known_representations().mutex);
  if (known_representations().by_name.contains(name)) {
    return fail(MPI_ERR_DUP_DATAREP, "MPI_Register_datarep: there is a representation ", name, " already");
  }
  known_representations().by_name[name] =
      std::make_shared<Registered>(name, conversions, is_native ? LeafSize::kNative : LeafSize::kExternal32);
  return Status::ok();
}

}  // namespace weir::mpiio::internal

#include <weir/net/internal/munge.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <grp.h>
#include <pwd.h>
#include <sodium.h>

#include <weir/base/text.h>
#include <weir/net/internal/dynamic_library.h>

namespace weir::net::internal {

namespace {

// What munge.h of MUNGE 0.5 says, which keeps its binary interface.
struct MungeContext;
constexpr int kMungeOptionSocket = 8;
constexpr int kMungeSuccess = 0;
constexpr int kMungeNoDaemon = 6;
constexpr int kMungeTimeout = 7;

struct MungeCalls {
  MungeContext* (*create)() = nullptr;
  void (*destroy)(MungeContext*) = nullptr;
  int (*set)(MungeContext*, int option, ...) = nullptr;
  const char* (*error)(MungeContext*) = nullptr;
  const char* (*text)(int code) = nullptr;
  int (*encode)(char** credential, MungeContext*, const void* payload, int bytes) = nullptr;
  int (*decode)(const char* credential, MungeContext*, void** payload, int* bytes, uid_t*, gid_t*) = nullptr;
  Status status;
};

MungeCalls load_munge() {
  DynamicLibrary library("libmunge.so.2", "tells who calls from another host", "libmunge2");
  MungeCalls calls;
  library.find("munge_ctx_create", calls.create);
  library.find("munge_ctx_destroy", calls.destroy);
  library.find("munge_ctx_set", calls.set);
  library.find("munge_ctx_strerror", calls.error);
  library.find("munge_strerror", calls.text);
  library.find("munge_encode", calls.encode);
  library.find("munge_decode", calls.decode);
  calls.status = library.status();
  return calls;
}

const MungeCalls& munge() {
  static const MungeCalls calls = load_munge();
  return calls;
}

using Context = std::unique_ptr<MungeContext, void (*)(MungeContext*)>;

Result<Context> make_context(const std::string& socket) {
  const MungeCalls& calls = munge();
  WEIR_RETURN_IF_ERROR(calls.status);
  Context context(calls.create(), calls.destroy);
  if (context == nullptr ||
      (!socket.empty() && calls.set(context.get(), kMungeOptionSocket, socket.c_str()) != kMungeSuccess)) {
    return Status(ErrorCode::kUnavailable, "MUNGE: out of memory");
  }
  return context;
}

Status munge_error(MungeContext* context, int code) {
  const char* const detail = munge().error(context);
  const bool is_down = code == kMungeNoDaemon || code == kMungeTimeout;
  return {is_down ? ErrorCode::kUnavailable : ErrorCode::kPermission,
          concat("MUNGE: ", detail != nullptr ? detail : munge().text(code))};
}

}  // namespace

Result<MungeUse> munge_use_by(const runtime::Settings& settings) {
  const std::string text = settings.get("WEIR_MUNGE");
  if (text.empty() || text == "auto") return MungeUse::kAuto;
  if (text == "require") return MungeUse::kRequire;
  if (text == "off") return MungeUse::kOff;
  return invalid_argument(concat("WEIR_MUNGE: unknown value '", text, "' (auto, require, off)"));
}

Result<std::string> Munge::encode(std::span<const std::byte> payload) const {
  WEIR_TRY(const Context context, make_context(socket_));
  char* made = nullptr;
  const int code = munge().encode(&made, context.get(), payload.data(), static_cast<int>(payload.size()));
  const std::unique_ptr<char, void (*)(void*)> credential(made, std::free);
  if (code != kMungeSuccess || made == nullptr) return munge_error(context.get(), code);
  return std::string(made);
}

Result<Munge::User> Munge::decode(const std::string& credential, std::span<const std::byte> payload) const {
  WEIR_TRY(const Context context, make_context(socket_));
  void* found = nullptr;
  int bytes = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const int code = munge().decode(credential.c_str(), context.get(), &found, &bytes, &uid, &gid);
  const std::unique_ptr<void, void (*)(void*)> kept(found, std::free);
  if (code != kMungeSuccess) return munge_error(context.get(), code);
  if (std::cmp_not_equal(bytes, payload.size()) || found == nullptr ||
      sodium_memcmp(found, payload.data(), payload.size()) != 0) {
    return Status(ErrorCode::kPermission, "MUNGE: the credential was made for another connection");
  }
  return User{uid, gid};
}

std::vector<std::uint32_t> groups_of(std::uint32_t uid, std::uint32_t gid) {
  constexpr int kMostGroups = 1024;
  std::array<char, 16384> text{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) return {};
  std::vector<gid_t> groups(kMostGroups);
  int count = kMostGroups;
  if (::getgrouplist(found->pw_name, gid, groups.data(), &count) < 0) return {};
  groups.resize(static_cast<std::size_t>(count));
  return {groups.begin(), groups.end()};
}

}  // namespace weir::net::internal

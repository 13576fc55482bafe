#include <weir/wire/wire.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/wire/internal/examples.h>

namespace weir::wire {
namespace {

using internal::example_replies;
using internal::example_requests;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

TEST(WireTest, EveryOperationComesBackAsItWas) {
  const std::vector<RequestHeadT> examples = example_requests();
  // One example of each member of the union, in its order: a new operation without an example fails here.
  ASSERT_EQ(examples.size(), static_cast<std::size_t>(Operation::MAX));
  for (std::size_t i = 0; i < examples.size(); ++i) {
    SCOPED_TRACE(EnumNameOperation(examples[i].operation.type));
    ASSERT_EQ(static_cast<std::size_t>(examples[i].operation.type), i + 1);
    const Bytes bytes = encode(examples[i]);
    const Result<RequestHeadT> head = decode_request(bytes);
    ASSERT_THAT(head, IsOk());
    EXPECT_EQ(head->operation.type, examples[i].operation.type);
    EXPECT_EQ(head->remaining_ms, examples[i].remaining_ms);
    EXPECT_EQ(encode(*head), bytes);
  }
}

TEST(WireTest, EveryAnswerComesBackAsItWas) {
  const std::vector<ReplyHeadT> examples = example_replies();
  ASSERT_EQ(examples.size(), static_cast<std::size_t>(Answer::MAX));
  for (std::size_t i = 0; i < examples.size(); ++i) {
    SCOPED_TRACE(EnumNameAnswer(examples[i].answer.type));
    ASSERT_EQ(static_cast<std::size_t>(examples[i].answer.type), i + 1);
    const Bytes bytes = encode(examples[i]);
    const Result<ReplyHeadT> head = decode_reply(bytes);
    ASSERT_THAT(head, IsOk());
    EXPECT_EQ(head->answer.type, examples[i].answer.type);
    EXPECT_EQ(encode(*head), bytes);
  }
}

TEST(WireTest, AboutComesBackAndDamageIsFound) {
  AboutT about;
  about.path = "/a/b";
  about.element = 3;
  about.attributes = std::make_unique<AttributesT>();
  about.attributes->data = 17;
  about.attributes->layout = {1, 2, 3};
  about.pending = true;
  const std::vector<std::uint8_t> bytes = encode_about(about);
  const Result<AboutT> back = decode_about(std::as_bytes(std::span(bytes)));
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->path, "/a/b");
  EXPECT_EQ(back->element, 3U);
  EXPECT_EQ(back->attributes->data, 17U);
  EXPECT_TRUE(back->pending);
  EXPECT_EQ(encode_about(*back), bytes);
  constexpr std::size_t kPadding = 8;  // at most, behind what counts
  for (std::size_t size = 0; size + kPadding < bytes.size(); ++size) {
    EXPECT_THAT(decode_about(std::as_bytes(std::span(bytes).first(size))), StatusIs(ErrorCode::kCorrupt)) << size;
  }
}

TEST(WireTest, FieldsArriveWithTheirValues) {
  WriteViewT write;
  write.view = 7;
  write.range = std::make_unique<Range>(-3, std::int64_t{1} << 61);
  write.file_end = 99;
  const Result<RequestHeadT> head = decode_request(encode_request(std::move(write), 1234));
  ASSERT_THAT(head, IsOk());
  const WriteViewT* back = head->operation.AsWriteView();
  ASSERT_NE(back, nullptr);
  EXPECT_EQ(back->view, 7u);
  EXPECT_EQ(back->range->from(), -3);
  EXPECT_EQ(back->range->to(), std::int64_t{1} << 61);
  EXPECT_EQ(back->file_end, 99);
  EXPECT_EQ(head->remaining_ms, 1234);
}

TEST(WireTest, NamesMayHoldAnyBytes) {
  LookupT lookup;
  for (int value = 0; value < 256; ++value) lookup.path.push_back(static_cast<char>(value));
  const std::string path = lookup.path;
  const Result<RequestHeadT> head = decode_request(encode_request(std::move(lookup), 0));
  ASSERT_THAT(head, IsOk());
  EXPECT_EQ(head->operation.AsLookup()->path, path);
}

TEST(WireTest, EveryFailureCodeComesBack) {
  for (auto code = std::uint8_t{1}; code <= static_cast<std::uint8_t>(ErrorCode::kQuota); ++code) {
    const Status status(static_cast<ErrorCode>(code), "what happened",
                        code % 2 == 0 ? std::optional(code) : std::nullopt);
    const Result<ReplyHeadT> head = decode_reply(encode_failure(status));
    ASSERT_THAT(head, IsOk());
    ASSERT_NE(head->answer.AsFailure(), nullptr);
    const Status back = to_status(*head->answer.AsFailure());
    EXPECT_EQ(back.code(), status.code());
    EXPECT_EQ(back.message(), status.message());
    EXPECT_EQ(back.location(), status.location());
  }
}

TEST(WireTest, UnknownFailureCodesAreStillFailures) {
  for (const int code : {0, static_cast<int>(ErrorCode::kQuota) + 1, 255}) {
    FailureT failure;
    failure.code = static_cast<std::uint8_t>(code);
    EXPECT_THAT(to_status(failure), StatusIs(ErrorCode::kIoError)) << code;
  }
}

TEST(WireTest, LayoutsComeBack) {
  for (const char* text : {"stripe(unit=64K, over=4)", "hpf(shape=[8,8], elem=8, dist=(*,BLOCK), grid=[1,4])"}) {
    const auto partition = layout::parse(text);
    ASSERT_THAT(partition, IsOk());
    const auto back = to_partition(to_bytes(*partition));
    ASSERT_THAT(back, IsOk());
    EXPECT_EQ(to_bytes(*back), to_bytes(*partition));
  }
  EXPECT_THAT(to_partition({1, 2, 3}), StatusIs(ErrorCode::kCorrupt));
}

TEST(WireTest, RefusesWhatIsNotAMessage) {
  EXPECT_THAT(decode_request({}), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(decode_reply(Bytes(64, std::byte{0xff})), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(decode_request(Bytes(kMostHeadBytes + 1)), StatusIs(ErrorCode::kCorrupt, HasSubstr("at most")));
  EXPECT_THAT(decode_request(encode(RequestHeadT{})), StatusIs(ErrorCode::kCorrupt, HasSubstr("no operation")));
  EXPECT_THAT(decode_reply(encode(ReplyHeadT{})), StatusIs(ErrorCode::kCorrupt, HasSubstr("no answer")));
}

TEST(WireTest, RefusesAnOperationThatIsNamedButMissing) {
  flatbuffers::FlatBufferBuilder builder;
  RequestHeadBuilder head(builder);
  head.add_operation_type(Operation::Lookup);
  builder.Finish(head.Finish());
  EXPECT_THAT(decode_request(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))),
              StatusIs(ErrorCode::kCorrupt));
}

TEST(WireTest, RefusesAStructThatIsMissing) {
  flatbuffers::FlatBufferBuilder builder;
  const flatbuffers::uoffset_t start = builder.StartTable();
  const auto sync = flatbuffers::Offset<Sync>(builder.EndTable(start));  // SyncBuilder would insist on a subfile
  builder.Finish(CreateRequestHead(builder, Operation::Sync, sync.Union()));
  EXPECT_THAT(decode_request(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))),
              StatusIs(ErrorCode::kCorrupt));
}

TEST(WireTest, RefusesBytesThatUnpackToMoreThanTheyAre) {
  flatbuffers::FlatBufferBuilder builder;
  const auto bytes = builder.CreateVector(std::vector<std::uint8_t>(10'000));
  const auto band = CreateBand(builder, bytes, 0, 0, bytes, 0, 0);
  const auto bands = builder.CreateVector(std::vector(1000, band));  // 20 MB from 14 KB
  const Subfile subfile(1, 2);
  const auto view = CreateRegisterView(builder, 1, &subfile, bands);
  builder.Finish(CreateRequestHead(builder, Operation::RegisterView, view.Union()));
  EXPECT_THAT(decode_request(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()))),
              StatusIs(ErrorCode::kCorrupt, HasSubstr("more than that")));
}

/// Makes each 4 bytes that may be an offset lead 4 bytes further, one after the other; how many of these messages have
/// a list that is not aligned.
template <typename Decode>
int count_misaligned(Decode decode, const Bytes& bytes) {
  int count = 0;
  for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) {
    Bytes moved = bytes;
    moved[at] = static_cast<std::byte>(std::to_integer<unsigned>(moved[at]) + 4);
    const auto head = decode(moved);
    if (head.is_ok() || head.status().message().find("not aligned") == std::string::npos) continue;
    EXPECT_EQ(head.status().code(), ErrorCode::kCorrupt);
    ++count;
  }
  return count;
}

TEST(WireTest, RefusesListsThatAreNotAligned) {
  // Ones, so that the first half of the first element may be taken for the length of the list.
  const std::vector<std::uint64_t> ones(3, 1);
  CreateT create;
  create.stores = ones;
  SetAttributesT set;
  set.stores = ones;
  BeginRelayoutT begin;
  begin.stores = ones;
  WritePiecesT pieces;
  pieces.subfile = std::make_unique<Subfile>(1, 1);
  pieces.pieces.assign(3, Range(1, 1));
  for (const Bytes& bytes : {encode_request(std::move(create), 0), encode_request(std::move(set), 0),
                             encode_request(std::move(begin), 0), encode_request(std::move(pieces), 0)})
    EXPECT_GT(count_misaligned(decode_request, bytes), 0);

  AttributesT attributes;
  attributes.stores = ones;
  ListingT listing;
  listing.entries.push_back(std::make_unique<EntryT>());
  listing.entries.back()->attributes = std::make_unique<AttributesT>(attributes);
  SubfilesT subfiles;
  subfiles.subfiles.assign(3, Subfile(1, 1));
  for (const Bytes& bytes :
       {encode_reply(std::move(attributes)), encode_reply(std::move(listing)), encode_reply(std::move(subfiles))})
    EXPECT_GT(count_misaligned(decode_reply, bytes), 0);
}

TEST(WireTest, ReadsBytesAtAnyAddress) {
  const Bytes bytes = encode(example_requests().front());
  for (std::size_t shift = 0; shift < 8; ++shift) {
    Bytes shifted(shift);
    shifted.insert(shifted.end(), bytes.begin(), bytes.end());
    EXPECT_THAT(decode_request(std::span(shifted).subspan(shift)), IsOk()) << shift;
  }
}

// Not a test: writes the seeds of messages_fuzz.cpp into the folder that WEIR_WRITE_SEEDS names.
TEST(WireTest, WritesSeedsWhereAskedTo) {
  const char* folder = std::getenv("WEIR_WRITE_SEEDS");
  if (folder == nullptr) GTEST_SKIP() << "WEIR_WRITE_SEEDS is not set";
  const auto write = [&](const std::string& name, const Bytes& bytes) {
    std::ofstream(std::string(folder) + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  for (const RequestHeadT& head : example_requests())
    write(std::string("request_") + EnumNameOperation(head.operation.type), encode(head));
  for (const ReplyHeadT& head : example_replies())
    write(std::string("reply_") + EnumNameAnswer(head.answer.type), encode(head));
}

}  // namespace
}  // namespace weir::wire

#include <weir/wire/internal/examples.h>

#include <utility>

namespace weir::wire::internal {

namespace {

std::unique_ptr<Subfile> subfile() { return std::make_unique<Subfile>(17, 3); }
std::unique_ptr<Range> range() { return std::make_unique<Range>(64, 4096); }

AttributesT attributes() {
  AttributesT it;
  it.file = 17;
  it.is_directory = true;
  it.mode = 0644;
  it.uid = 1000;
  it.gid = 100;
  it.created_ns = 1;
  it.changed_ns = 2;
  it.epoch = 3;
  it.data = 4;
  it.layout = {1, 2, 3};
  it.targets = {0, 1, 0};
  it.stores = {7, 8, 7};
  it.rights = 6;
  it.capability = {1, 2};
  return it;
}

BandT band() {
  BandT it;
  it.view = {1, 2};
  it.view_disp = 3;
  it.view_period = 4;
  it.subfile = {5};
  it.subfile_disp = 6;
  it.subfile_period = 7;
  return it;
}

template <typename Table, typename Fill>
RequestHeadT request(Fill fill) {
  Table table;
  fill(table);
  RequestHeadT head;
  head.operation.Set(std::move(table));
  head.remaining_ms = 1500;
  head.store = 7;
  return head;
}

template <typename Table, typename Fill>
ReplyHeadT reply(Fill fill) {
  Table table;
  fill(table);
  ReplyHeadT head;
  head.answer.Set(std::move(table));
  head.boot = 11;
  return head;
}

void add_metadata_requests(std::vector<RequestHeadT>& all) {
  all.push_back(
      request<LookupT>([](LookupT& it) { it.path = "/a/b", it.file = 3, it.access = 4, it.capability = {1}; }));
  all.push_back(request<CreateT>([](CreateT& it) {
    it.path = "/new";
    it.layout = {9, 8};
    it.mode = 0600;
    it.exclusive = true;
    it.targets = {1, 2};
    it.stores = {7, 8, 9};
    it.access = 6;
  }));
  all.push_back(request<MakeDirectoryT>([](MakeDirectoryT& it) { it.path = "/d", it.mode = 0755; }));
  all.push_back(request<RemoveT>([](RemoveT& it) { it.path = "/d", it.directory = true; }));
  all.push_back(request<RenameT>([](RenameT& it) { it.from = "/a", it.to = "/b"; }));
  all.push_back(request<ListT>([](ListT& it) { it.path = "/", it.after = "m", it.limit = 100; }));
  all.push_back(request<SetAttributesT>([](SetAttributesT& it) {
    it.path = "/a";
    it.set_mode = true;
    it.mode = 0400;
    it.set_owner = true;
    it.uid = 1;
    it.gid = 2;
    it.layout = {1};
    it.targets = {3};
    it.touch = true;
    it.stores = {7};
  }));
  all.push_back(request<BeginRelayoutT>(
      [](BeginRelayoutT& it) { it.path = "/a", it.layout = {1}, it.targets = {0}, it.stores = {7}; }));
  all.push_back(request<EndRelayoutT>([](EndRelayoutT& it) { it.file = 1, it.data = 2, it.commit = true; }));
  all.push_back(request<MembershipT>([](MembershipT&) {}));
  all.push_back(request<AllFilesT>([](AllFilesT& it) { it.after = 5, it.limit = 6; }));
  all.push_back(request<LockT>([](LockT& it) {
    it.file = 17;
    it.range = range();
    it.exclusive = true;
    it.owner = 8;
    it.wait = true;
    it.capability = {1};
  }));
  all.push_back(request<UnlockT>([](UnlockT& it) { it.file = 17, it.range = range(), it.owner = 8; }));
}

void add_io_requests(std::vector<RequestHeadT>& all) {
  all.push_back(request<RegisterViewT>([](RegisterViewT& it) {
    it.view = 5;
    it.subfile = subfile();
    it.bands.push_back(std::make_unique<BandT>(band()));
    it.bands.push_back(std::make_unique<BandT>(band()));
  }));
  all.push_back(request<ForgetViewT>([](ForgetViewT& it) { it.view = 5; }));
  all.push_back(request<ReadViewT>([](ReadViewT& it) { it.view = 5, it.range = range(); }));
  all.push_back(request<WriteViewT>([](WriteViewT& it) { it.view = 5, it.range = range(), it.file_end = 4096; }));
  all.push_back(request<ReadPiecesT>([](ReadPiecesT& it) { it.subfile = subfile(), it.pieces = {{0, 1}, {5, 9}}; }));
  all.push_back(request<WritePiecesT>([](WritePiecesT& it) {
    it.subfile = subfile(), it.pieces = {{0, 1}}, it.file_end = 77;
  }));
  all.push_back(request<TruncateT>([](TruncateT& it) { it.subfile = subfile(), it.length = 3, it.file_end = 4; }));
  all.push_back(request<ReserveT>([](ReserveT& it) { it.subfile = subfile(), it.range = range(); }));
  all.push_back(request<SyncT>([](SyncT& it) { it.subfile = subfile(), it.about = {4}; }));
  all.push_back(request<RemoveSubfileT>([](RemoveSubfileT& it) { it.subfile = subfile(); }));
  all.push_back(request<InspectT>([](InspectT& it) { it.subfile = subfile(), it.about = true; }));
  all.push_back(request<ListSubfilesT>([](ListSubfilesT& it) { it.after = subfile(), it.limit = 10; }));
  all.push_back(request<UsageOfT>([](UsageOfT& usage) { usage.counts_stored = true; }));
  all.push_back(request<ShareT>([](ShareT& it) { it.subfile = subfile(), it.for_writing = true; }));
  all.push_back(request<StatisticsT>([](StatisticsT&) {}));
  all.push_back(request<UseCounterT>([](UseCounterT& it) {
    it.action = CounterAction::Add;
    it.counter = 1;
    it.holder = 2;
    it.value = 3;
  }));
  all.push_back(
      request<FenceT>([](FenceT& it) { it.action = FenceAction::Confirm, it.subfile = subfile(), it.token = 9; }));
  all.push_back(request<SyncNamesT>([](SyncNamesT&) {}));
  all.push_back(request<SyncSubfilesT>([](SyncSubfilesT&) {}));
  all.push_back(request<AdoptT>(
      [](AdoptT& it) { it.path = "/lost+found/4", it.attributes = std::make_unique<AttributesT>(attributes()); }));
  all.push_back(request<DescribeT>([](DescribeT& it) { it.subfile = subfile(), it.about = {1, 2, 3}; }));
  all.push_back(request<PendingRemovalsT>([](PendingRemovalsT& it) { it.after = 4, it.limit = 10; }));
  all.push_back(request<PullT>([](PullT& it) {
    it.element = 1;
    it.to = std::make_unique<AttributesT>(attributes());
    it.from = std::make_unique<AttributesT>(attributes());
    it.range = range();
    it.file_end = 77;
    it.buffer_bytes = 4096;
  }));
  all.push_back(request<PresentT>([](PresentT& it) { it.capability = {1, 2, 3}; }));
}

void add_quota_requests(std::vector<RequestHeadT>& all) {
  all.push_back(request<SetQuotaT>([](SetQuotaT& it) { it.user = 1000, it.set_bytes = true, it.bytes = 4096; }));
  all.push_back(request<GetQuotasT>([](GetQuotasT& it) { it.all = true; }));
  all.push_back(request<LeaseSpaceT>([](LeaseSpaceT& it) {
    it.server = 1;
    it.boot = 2;
    it.held = {{3, 4096, 1}};
    it.asks = {{3, 4096, 8192}};
    it.is_complete = true;
  }));
  all.push_back(request<MeterSpaceT>([](MeterSpaceT& it) { it.is_metered = true, it.data = {3, 4}, it.after = 2; }));
}

}  // namespace

std::vector<RequestHeadT> example_requests() {
  std::vector<RequestHeadT> all;
  add_metadata_requests(all);
  add_io_requests(all);
  add_quota_requests(all);
  return all;
}

std::vector<ReplyHeadT> example_replies() {
  std::vector<ReplyHeadT> all;
  all.push_back(reply<FailureT>([](FailureT& it) { it.code = 6, it.message = "no such file", it.location = 12; }));
  all.push_back(reply<DoneT>([](DoneT&) {}));
  all.push_back(reply<AttributesT>([](AttributesT& it) { it = attributes(); }));
  all.push_back(reply<ListingT>([](ListingT& it) {
    EntryT entry;
    entry.name = "x";
    entry.attributes = std::make_unique<AttributesT>(attributes());
    it.entries.push_back(std::make_unique<EntryT>(std::move(entry)));
    it.is_complete = true;
  }));
  all.push_back(reply<MembersT>([](MembersT& it) {
    ServerT server;
    server.index = 1;
    server.address = "tcp:127.0.0.1:7001";
    server.host = "h";
    it.servers.push_back(std::make_unique<ServerT>(std::move(server)));
    TargetT target;
    target.index = 3;
    target.server = 1;
    target.store = "memory";
    target.store_id = 7;
    target.keeps_about = true;
    it.targets.push_back(std::make_unique<TargetT>(std::move(target)));
    it.epoch = 12;
    it.version = "1";
  }));
  all.push_back(reply<SubfileInfoT>([](SubfileInfoT& it) {
    it.length = 1, it.file_end = 2, it.stored_bytes = 3, it.about = {4}, it.about_error = "e";
  }));
  all.push_back(reply<SubfilesT>([](SubfilesT& it) { it.subfiles = {{1, 2}, {3, 4}}, it.is_complete = true; }));
  all.push_back(reply<UsageT>([](UsageT& it) { it.capacity_bytes = 10, it.used_bytes = 5, it.subfiles = 1; }));
  all.push_back(reply<HandoverT>([](HandoverT& it) {
    it.possible = true;
    it.socket = "s";
    it.token = {1, 2, 3, 4};
    it.boot = 11;
    it.process = 12;
    it.memory = std::make_unique<Descriptor>(13, 14, 15);
    it.lifeline = std::make_unique<Descriptor>(16, 17, 18);
    it.verifies = true;
  }));
  all.push_back(reply<CountersT>([](CountersT& it) {
    it.requests = 1;
    it.bytes_in = 2;
    it.bytes_out = 3;
    it.index_bytes = 4;
    it.views = 5;
    it.peers = 6;
    it.identifies = Identifies::ByMunge;
    it.encrypts = Encrypts::Always;
    it.squashes_root = true;
    it.verifies = true;
    it.damaged_blocks = 7;
  }));
  all.push_back(reply<CounterValueT>([](CounterValueT& it) { it.counter = 1, it.value = 2; }));
  all.push_back(reply<QuotasT>([](QuotasT& it) {
    QuotaT quota;
    quota.user = 1000;
    quota.bytes_limit = 4096;
    it.quotas.push_back(std::make_unique<QuotaT>(quota));
    it.is_active = true;
  }));
  all.push_back(reply<SpaceLeasesT>([](SpaceLeasesT& it) {
    SpaceLeaseT lease;
    lease.bytes = 4096;
    it.leases.push_back(std::make_unique<SpaceLeaseT>(std::move(lease)));
    it.is_metered = true;
  }));
  all.push_back(reply<HeldSpacesT>([](HeldSpacesT& it) {
    it.boot = 1, it.held = {{3, 4096, 1}}, it.is_complete = true;
  }));
  return all;
}

}  // namespace weir::wire::internal

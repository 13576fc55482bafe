#include <weir/client/counter.h>

#include <weir/client/internal/session.h>

namespace weir::client {

using internal::Repeat;
using internal::Session;
using wire::CounterAction;

struct Counter::State {
  std::shared_ptr<Session> session;
  std::uint64_t holder;  // the server knows this handle by it
  std::uint64_t id = 0;

  Result<wire::CounterValueT> use(CounterAction action, Offset value, Repeat repeat) const {
    wire::UseCounterT request;
    request.action = action;
    request.counter = id;
    request.holder = holder;
    request.value = value;
    return session->call<wire::CounterValueT>(0, std::move(request), repeat);
  }

  // A client that is gone, or a server that is, leaves without a word.
  ~State() {
    if (id != 0 && session->is_connected(0)) (void)use(CounterAction::Leave, 0, Repeat::kNever);
  }
};

Counter::Counter(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<Counter> Counter::make(std::shared_ptr<Session> session, Offset value) {
  const std::uint64_t holder = session->next_number();
  Counter counter(std::shared_ptr<State>(new State{std::move(session), holder}));
  WEIR_TRY(const wire::CounterValueT made, counter.state_->use(CounterAction::Make, value, Repeat::kNever));
  counter.state_->id = made.counter;
  return counter;
}

Result<Counter> Counter::find(std::shared_ptr<Session> session, std::uint64_t id) {
  const std::uint64_t holder = session->next_number();
  Counter counter(std::shared_ptr<State>(new State{std::move(session), holder, id}));
  WEIR_RETURN_IF_ERROR(counter.get().status());
  return counter;
}

std::uint64_t Counter::id() const { return state_->id; }

Result<Offset> Counter::fetch_add(Offset delta) const {
  WEIR_TRY(const wire::CounterValueT before, state_->use(CounterAction::Add, delta, Repeat::kNever));
  return before.value;
}

Status Counter::set(Offset value) const { return state_->use(CounterAction::Set, value, Repeat::kSafe).status(); }

Result<Offset> Counter::get() const {
  WEIR_TRY(const wire::CounterValueT now, state_->use(CounterAction::Get, 0, Repeat::kSafe));
  return now.value;
}

Status Counter::remove() const { return state_->use(CounterAction::Remove, 0, Repeat::kNever).status(); }

}  // namespace weir::client

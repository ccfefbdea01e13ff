// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of the guide. check.sh compares the regions between two equal marks with the guide.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <turnstile/async_lock_all.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/await_fast_path.hpp>
#include <turnstile/concepts.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/error.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/owner_token.hpp>
#include <turnstile/shared_mutex.hpp>
#include <turnstile/stop_token.hpp>
#include <turnstile/transaction.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

int failures = 0;

void expect(bool holds, std::string_view what)
{
    if (!holds)
    {
        std::cerr << "does not hold: " << what << '\n';
        ++failures;
    }
}

/// Runs a coroutine, and all that it starts, to their end.
void run(asio::io_context& context, asio::awaitable<void> body)
{
    asio::co_spawn(context, std::move(body),
                   [](const std::exception_ptr& failure)
                   {
                       if (failure)
                           std::rethrow_exception(failure);
                   });
    context.run();
    context.restart();
}

namespace strand_only {

// [strand_write]
asio::awaitable<void> write_message(std::vector<std::string>& wire, std::string name)
{
    wire.push_back(name + " header");
    co_await asio::post(asio::deferred);  // in place of a co_await of the socket
    wire.push_back(name + " body");
}
// [strand_write]

void demonstrate()
{
    std::vector<std::string> wire;
    asio::io_context context;
    // [strand_run]
    auto strand = asio::make_strand(context);
    asio::co_spawn(strand, write_message(wire, "a"), asio::detached);
    asio::co_spawn(strand, write_message(wire, "b"), asio::detached);
    context.run();
    // wire: a header, b header, a body, b body
    // [strand_run]
    expect(wire == std::vector<std::string>{"a header", "b header", "a body", "b body"},
           "a strand lets the messages interleave");
}

}  // namespace strand_only

namespace with_mutex {

// [mutex_write]
asio::awaitable<void> write_message(turnstile::async_mutex& mutex, std::vector<std::string>& wire,
                                    std::string name)
{
    auto guard = co_await mutex.async_lock();
    wire.push_back(name + " header");
    co_await asio::post(asio::deferred);
    wire.push_back(name + " body");
}
// wire: a header, a body, b header, b body
// [mutex_write]

void demonstrate()
{
    std::vector<std::string> wire;
    asio::io_context context;
    turnstile::async_mutex mutex{context};
    asio::co_spawn(context, write_message(mutex, wire, "a"), asio::detached);
    asio::co_spawn(context, write_message(mutex, wire, "b"), asio::detached);
    context.run();
    expect(wire == std::vector<std::string>{"a header", "a body", "b header", "b body"},
           "a mutex keeps the messages whole");
}

}  // namespace with_mutex

// --- locking --------------------------------------------------------------------------------

asio::awaitable<void> give_back(turnstile::async_mutex& mutex)
{
    // [give_back]
    auto guard = co_await mutex.async_lock();
    // ... work that needs the lock ...
    guard.unlock();
    // ... work that does not ...
    // [give_back]
    expect(!guard.owns_lock() && !mutex.is_locked(), "the lock was released");
}

asio::awaitable<bool> try_now(turnstile::async_mutex& mutex)
{
    // [try_now]
    std::optional guard = mutex.try_lock();
    if (!guard)
        co_return false;  // the lock is held
    // [try_now]
    co_return true;
}

asio::awaitable<bool> try_for(turnstile::async_mutex& mutex)
{
    // [try_for]
    auto guard = co_await mutex.async_try_lock_for(50ms);
    if (!guard)
        co_return false;  // the time limit expired; this is an answer, not an error
    // [try_for]
    co_return true;
}

struct account
{
    explicit account(asio::io_context& context)
        : mutex(context)
    {
    }

    turnstile::async_mutex mutex;
    int balance = 100;
};

// [lock_all]
asio::awaitable<void> transfer(account& from, account& to, int amount)
{
    auto guards = co_await turnstile::async_lock_all(from.mutex, to.mutex);
    from.balance -= amount;
    to.balance += amount;
}
// [lock_all]

void locking()
{
    asio::io_context context;
    turnstile::async_mutex mutex{context};
    run(context, give_back(mutex));

    auto attempts = [&]() -> asio::awaitable<void>
    {
        expect(co_await try_now(mutex), "a free mutex can be had");
        auto guard = co_await mutex.async_lock();
        expect(!co_await try_now(mutex), "a locked one not");
        expect(!co_await try_for(mutex), "not even within a time limit");
    };
    run(context, attempts());

    account a{context};
    account b{context};
    asio::co_spawn(context, transfer(a, b, 10), asio::detached);
    asio::co_spawn(context, transfer(b, a, 30), asio::detached);
    context.run();
    expect(a.balance == 120 && b.balance == 80, "both transfers happen");
}

// --- cancellation ---------------------------------------------------------------------------

asio::awaitable<bool> cancel_after_with_a_timer(turnstile::async_mutex& mutex)
{
    // [cancel_after]
    asio::steady_timer timer{co_await asio::this_coro::executor};
    auto result = co_await mutex.async_lock(
        asio::cancel_after(timer, 50ms, asio::as_tuple(asio::use_awaitable)));
    auto& [error, guard] = result;
    if (error == asio::error::operation_aborted)
        co_return false;
    // [cancel_after]
    co_return true;
}

asio::awaitable<bool> cancel_after_without(turnstile::async_mutex& mutex)
{
    // [cancel_after_without]
    // Arms its timer on the executor of the mutex. If no thread runs that, this waits for ever.
    auto result = co_await mutex.async_lock(asio::cancel_after(50ms, asio::as_tuple));
    // [cancel_after_without]
    co_return !std::get<0>(result);
}

asio::awaitable<bool> either(turnstile::async_mutex& mutex)
{
    // [either]
    using namespace asio::experimental::awaitable_operators;

    asio::steady_timer timer{co_await asio::this_coro::executor, 50ms};
    auto first =
        co_await (mutex.async_lock(asio::use_awaitable) || timer.async_wait(asio::use_awaitable));
    if (first.index() == 1)
        co_return false;  // the timer was first; the waiter has left the queue
    auto guard = std::get<0>(std::move(first));
    // [either]
    co_return guard.owns_lock();
}

asio::awaitable<void> worker(turnstile::async_mutex& mutex)
{
    auto guard = co_await mutex.async_lock();
}

void cancellation()
{
    asio::io_context elsewhere;  // no thread runs it
    asio::io_context context;
    turnstile::async_mutex mutex{elsewhere};
    auto attempts = [&]() -> asio::awaitable<void>
    {
        expect(co_await cancel_after_with_a_timer(mutex), "a free mutex is locked");
        expect(co_await either(mutex), "a free mutex is locked by the operator, too");
        auto guard = co_await mutex.async_lock();
        expect(!co_await cancel_after_with_a_timer(mutex), "the timer ends the wait");
        expect(!co_await either(mutex), "the operator ends the wait");
    };
    run(context, attempts());

    std::optional held = mutex.try_lock();
    bool over = false;
    auto waits_for_ever = [&]() -> asio::awaitable<void>
    {
        expect(!co_await cancel_after_without(mutex), "the lock is held");
        over = true;
    };
    asio::co_spawn(context, waits_for_ever(), asio::detached);
    context.poll();  // it still waits after its time limit
    context.run_for(150ms);
    expect(!over, "the timer of cancel_after runs on the context of the mutex");
    elsewhere.run();
    context.run();
    context.restart();
    expect(over, "and fires as soon as that runs");

    bool aborted = false;
    auto at_end = [&](const std::exception_ptr& failure)
    {
        try
        {
            if (failure)
                std::rethrow_exception(failure);
        }
        catch (const turnstile::system_error& e)
        {
            aborted = e.code() == asio::error::operation_aborted;
        }
    };
    // [signal]
    auto strand = asio::make_strand(context);
    asio::cancellation_signal stop;
    asio::co_spawn(strand, worker(mutex), asio::bind_cancellation_slot(stop.slot(), at_end));

    // later, on any thread:
    asio::post(strand, [&] { stop.emit(asio::cancellation_type::terminal); });
    // [signal]
    context.run();
    expect(aborted, "the signal ends the wait");
}

// --- executors ------------------------------------------------------------------------------

void executors()
{
    asio::io_context context;
    asio::io_context other;
    turnstile::async_mutex mutex{context};
    auto strand = asio::make_strand(other);
    bool on_own = false;
    bool on_strand = false;
    // [executors]
    using guard_type = turnstile::async_mutex::guard_type;

    // A plain callback has no executor: it runs on that of the mutex.
    mutex.async_lock([&](turnstile::error_code, guard_type)
                     { on_own = context.get_executor().running_in_this_thread(); });

    // This one runs on its strand, regardless of the executor of the mutex.
    mutex.async_lock(asio::bind_executor(strand, [&](turnstile::error_code, guard_type)
                                         { on_strand = strand.running_in_this_thread(); }));
    // [executors]
    context.run();
    other.run();
    expect(on_own && on_strand, "each runs where it belongs");
}

// --- lifetime -------------------------------------------------------------------------------

asio::awaitable<void> waits(turnstile::async_mutex& mutex, bool& aborted)
{
    // [lifetime]
    auto result = co_await mutex.async_lock(asio::as_tuple);
    auto& [error, guard] = result;
    if (error == asio::error::operation_aborted)
        aborted = true;  // cancelled, or the mutex is gone
    // [lifetime]
}

void lifetime()
{
    asio::io_context context;
    auto mutex = std::make_unique<turnstile::async_mutex>(context);
    std::optional guard = mutex->try_lock();
    bool aborted = false;
    asio::co_spawn(context, waits(*mutex, aborted), asio::detached);
    context.poll();
    mutex.reset();
    context.run();
    expect(aborted, "the waiter is aborted");
    expect(guard && guard->owns_lock() && !guard->valid(), "the guard is inert");
}

// --- owner tokens ---------------------------------------------------------------------------

asio::awaitable<void> tokens(turnstile::async_mutex& mutex)
{
    // [tokens]
    turnstile::owner_token token = co_await mutex.async_enter();
    // ... in another function, perhaps much later ...
    mutex.leave(token);
    // [tokens]
    token = co_await mutex.async_enter();
    // [adopt]
    turnstile::async_mutex::guard_type guard(mutex, token, turnstile::adopt_lock);
    token = guard.release();  // and back
    // [adopt]
    mutex.leave(token);
}

asio::awaitable<void> wrong_token(asio::io_context& context)
{
    std::string text;
    // [wrong_token]
    turnstile::async_mutex mutex{context};
    const turnstile::owner_token token = co_await mutex.async_enter();  // grant number 1
    try
    {
        mutex.leave(turnstile::owner_token(7));
    }
    catch (const turnstile::owner_mismatch& mismatch)
    {
        text = mismatch.what();  // Owner token mismatch. Expected 1 but received 7
    }
    mutex.leave(token);  // the failed attempt has changed nothing
    // [wrong_token]
    expect(text == "Owner token mismatch. Expected 1 but received 7", text);
    expect(!mutex.is_locked(), "the right token releases");
}

// --- conditions and monitors ----------------------------------------------------------------

// [condition]
class mailbox
{
public:
    explicit mailbox(const asio::any_io_executor& executor)
        : mutex_(executor)
        , not_empty_(mutex_)
    {
    }

    asio::awaitable<void> put(std::string letter)
    {
        auto guard = co_await mutex_.async_lock();
        letters_.push_back(std::move(letter));
        not_empty_.notify_one();
    }

    asio::awaitable<std::string> take()
    {
        auto guard = co_await mutex_.async_lock();
        co_await not_empty_.async_wait(guard, [&] { return !letters_.empty(); });
        std::string letter = std::move(letters_.front());
        letters_.pop_front();
        co_return letter;
    }

private:
    turnstile::async_mutex mutex_;
    turnstile::condition<turnstile::async_mutex> not_empty_;
    std::deque<std::string> letters_;
};
// [condition]

asio::awaitable<void> condition_wait_cancelled(turnstile::async_mutex& mutex,
                                               turnstile::condition<turnstile::async_mutex>& ready,
                                               bool& is_ready)
{
    // [wait_for]
    auto guard = co_await mutex.async_lock();
    if (!co_await ready.async_wait_for(guard, 50ms, [&] { return is_ready; }))
        is_ready = true;  // the time limit expired; the guard holds the lock again
    // [wait_for]
    expect(guard.owns_lock(), "the lock is owned again");
}

// [monitor]
struct queue_state
{
    std::deque<int> jobs;
    bool finished = false;
};

class job_queue
{
public:
    explicit job_queue(const asio::any_io_executor& executor)
        : state_(executor)
        , changed_(state_.make_condition("changed"))
    {
    }

    asio::awaitable<void> push(int job)
    {
        co_await state_.async_with(
            [&](auto& section)
            {
                section->jobs.push_back(job);
                section.notify_one(changed_);
            });
    }

    asio::awaitable<void> finish()
    {
        co_await state_.async_with(
            [&](auto& section)
            {
                section->finished = true;
                section.notify_all(changed_);
            });
    }

    /// The next job, or nothing after the last one.
    asio::awaitable<std::optional<int>> pop()
    {
        co_return co_await state_.async_with(
            [&](auto& section) -> asio::awaitable<std::optional<int>>
            {
                co_await section.async_wait(changed_, [](const queue_state& state)
                                            { return !state.jobs.empty() || state.finished; });
                if (section->jobs.empty())
                    co_return std::nullopt;
                const int job = section->jobs.front();
                section->jobs.pop_front();
                co_return job;
            });
    }

private:
    turnstile::monitor<queue_state> state_;
    turnstile::monitor<queue_state>::condition_type changed_;
};
// [monitor]

asio::awaitable<void> transactions()
{
    // [transaction]
    struct pool
    {
        int free = 2;
        bool closed = false;
    };
    turnstile::monitor<pool> state{co_await asio::this_coro::executor};
    auto one_free = state.make_condition("one_free");

    const auto take = turnstile::transaction<pool>()
                          .require(&pool::free, std::greater(), 0)
                          .wait_on(one_free)
                          .add(&pool::free, -1);
    const auto give = turnstile::transaction<pool>().add(&pool::free, 1).notify_one(one_free);
    const auto close = turnstile::transaction<pool>()
                           .require(&pool::closed, std::equal_to(), false)
                           .set(&pool::closed, true);

    co_await state.async_transact(take);  // waits until its requirement holds
    co_await state.async_transact(give);
    const bool was_open = co_await state.async_transact(close);
    // [transaction]
    expect(was_open, "nobody has closed it");
    expect(!co_await state.async_transact(close), "it is closed once");
}

void conditions()
{
    asio::io_context context;
    mailbox box{context.get_executor()};
    std::string letter;
    auto reader = [&]() -> asio::awaitable<void> { letter = co_await box.take(); };
    asio::co_spawn(context, reader(), asio::detached);
    asio::co_spawn(context, box.put("hello"), asio::detached);
    context.run();
    context.restart();
    expect(letter == "hello", "the letter arrives");

    turnstile::async_mutex mutex{context};
    turnstile::condition ready{mutex};
    bool is_ready = false;
    run(context, condition_wait_cancelled(mutex, ready, is_ready));
    expect(is_ready, "the time was up");

    job_queue queue{context.get_executor()};
    int sum = 0;
    auto consumer = [&]() -> asio::awaitable<void>
    {
        while (const auto job = co_await queue.pop())
            sum += *job;
    };
    auto producer = [&]() -> asio::awaitable<void>
    {
        for (int job : {1, 2, 3})
            co_await queue.push(job);
        co_await queue.finish();
    };
    asio::co_spawn(context, consumer(), asio::detached);
    asio::co_spawn(context, consumer(), asio::detached);
    asio::co_spawn(context, producer(), asio::detached);
    context.run();
    expect(sum == 6, "every job is done once");
    context.restart();
    run(context, transactions());
}

// --- with_lock ------------------------------------------------------------------------------

struct storage
{
    static asio::awaitable<int> write(std::uint64_t /*fencing_token*/)
    {
        co_await asio::post(asio::deferred);
        co_return 1;
    }
};

asio::awaitable<void> sections(turnstile::async_mutex& mutex, storage& store)
{
    // [with_lock]
    const int version =
        co_await turnstile::with_lock(mutex, [&](auto& guard) -> asio::awaitable<int>
                                      { co_return co_await store.write(guard.fencing_token()); });
    // [with_lock]
    expect(version == 1 && !mutex.is_locked(), "the section returns a value");

    auto record = std::make_shared<int>(0);
    // [named_closure]
    auto body = [record](auto&) -> asio::awaitable<void>
    {
        ++*record;
        co_return;
    };
    co_await turnstile::with_lock(mutex, body);
    // [named_closure]
    expect(*record == 1, "the body ran");

    // [named_result]
    const auto guard = co_await mutex.async_try_lock_for(50ms);
    if (!guard)
        co_return;
    // [named_result]
    expect(guard->owns_lock(), "nobody else has it");
}

// --- errors ---------------------------------------------------------------------------------

asio::awaitable<void> errors(asio::io_context& context)
{
    std::string text;
    // [error_throw]
    turnstile::async_semaphore connections{context, 3};
    try
    {
        auto permit = co_await connections.async_acquire(5);
    }
    catch (const turnstile::system_error& error)
    {
        if (error.code() == turnstile::errc::invalid_count)
            text = error.what();  // acquire of 5 units, at least 1 and at most 3 are possible: ...
    }
    // [error_throw]
    if (turnstile::has_await_fast_path)
        expect(text.starts_with("acquire of 5 units, at least 1 and at most 3 are possible: "),
               text);

    // [error_code]
    auto result = co_await connections.async_acquire(5, asio::as_tuple);
    auto& [error, permit] = result;
    if (error == turnstile::errc::invalid_count)
        text = error.message();
    // [error_code]
    expect(error.category() == turnstile::turnstile_category(), error.what());
    expect(!permit, "a failed operation yields an empty permit");
}

// --- stop tokens ----------------------------------------------------------------------------

asio::awaitable<void> stop_tokens(turnstile::async_mutex& mutex)
{
    std::stop_source source;
    std::stop_token stop = source.get_token();
    std::optional held = mutex.try_lock();
    std::jthread other([&] { source.request_stop(); });
    // [stop_token]
    auto result =
        co_await mutex.async_lock(turnstile::bind_stop_token(stop, asio::as_tuple(asio::deferred)));
    auto& [error, guard] = result;
    // error is operation_aborted if a stop was requested, on any thread
    // [stop_token]
    expect(error == asio::error::operation_aborted, "the stop token ends the wait");
}

// --- observation ----------------------------------------------------------------------------

asio::awaitable<void> observation(asio::io_context& context)
{
    std::ostringstream log;
    // [watch]
    auto watch = std::make_shared<turnstile::lock_watch>();
    turnstile::async_mutex orders{context, "orders", watch};
    // [watch]
    auto guard = co_await orders.async_lock();
    asio::co_spawn(context, worker(orders), asio::detached);
    co_await asio::post(asio::deferred);
    co_await asio::post(asio::deferred);
    // [snapshot]
    const turnstile::lock_snapshot now = orders.snapshot();
    if (now.holder)
        log << now.name << ": grant " << now.holder->number << ", " << now.waiters.size()
            << " waiting\n";
    // [snapshot]
    expect(log.str() == "orders: grant 1, 1 waiting\n", log.str());

    const auto limit = 0s;
    // [report]
    for (const turnstile::lock_snapshot& lock : watch->deadlock_report(limit))
    {
        log << lock.name;
        if (lock.holder && lock.holder->where)
            log << ", acquired in line " << lock.holder->where->line();
        log << ", wanted in";
        for (const turnstile::lock_waiter& waiter : lock.waiters)
            log << " line " << waiter.where.line();
        log << '\n';
    }
    // [report]
    expect(log.str().find("wanted in line ") != std::string::npos, log.str());

    guard.unlock();
    co_await asio::post(asio::deferred);
    expect(watch->counters().acquired == 2, "both grants were counted");
}

void hooks(asio::io_context& context)
{
    int slow = 0;
    // [hooks]
    turnstile::lock_hooks hooks;
    hooks.on_released = [&](const turnstile::lock_event& event)
    {
        if (event.duration > 100ms)
            ++slow;  // event.name, event.where
    };
    auto watch = std::make_shared<turnstile::lock_watch>(std::move(hooks));
    // [hooks]
    turnstile::async_mutex mutex{context, "mutex", watch};
    const auto begin = std::chrono::steady_clock::now();
    std::optional guard = mutex.try_lock();
    guard.reset();
    // The system may have stopped this thread meanwhile.
    const bool short_time = std::chrono::steady_clock::now() - begin <= 100ms;
    expect(slow == 0 || !short_time, "a short time is not reported");
    expect(watch->counters().released == 1, "the release is counted");
}

// --- concepts -------------------------------------------------------------------------------

// [concepts]
// For any mutex, in this process or across several.
template <turnstile::awaitable_mutex Mutex>
asio::awaitable<std::uint64_t> next_number(Mutex& mutex, std::uint64_t& counter)
{
    auto guard = co_await mutex.async_lock();
    co_return ++counter;
}
// [concepts]

static_assert(turnstile::awaitable_mutex<turnstile::async_mutex>);
static_assert(turnstile::awaitable_mutex<turnstile::unsynchronized_async_mutex>);
static_assert(turnstile::awaitable_shared_mutex<turnstile::shared_mutex>);
static_assert(turnstile::awaitable_semaphore<turnstile::async_semaphore>);
static_assert(turnstile::awaitable_condition<turnstile::condition<turnstile::async_mutex>>);

}  // namespace

int main()
{
    strand_only::demonstrate();
    with_mutex::demonstrate();
    locking();
    cancellation();
    executors();
    lifetime();

    asio::io_context context;
    turnstile::async_mutex mutex{context};
    run(context, tokens(mutex));
    run(context, wrong_token(context));
    conditions();
    storage store;
    run(context, sections(mutex, store));
    run(context, errors(context));
    run(context, stop_tokens(mutex));
    run(context, observation(context));
    hooks(context);

    std::uint64_t counter = 0;
    auto count = [&]() -> asio::awaitable<void> { co_await next_number(mutex, counter); };
    run(context, count());
    expect(counter == 1, "the template works");
    return failures == 0 ? 0 : 1;
}

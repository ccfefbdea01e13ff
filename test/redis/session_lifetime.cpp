// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Contexts, session, mutex and guard are destroyed in every order. AddressSanitizer checks the accesses.

#include <algorithm>
#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <redis/session/context_life.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <support/attempt.hpp>
#include <support/end_of.hpp>
#include <support/lock_client.hpp>
#include <support/owning_executor.hpp>
#include <support/redis_server.hpp>
#include <support/start.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/job_queue.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace data = boost::unit_test::data;
using namespace std::chrono_literals;
using turnstile::redis::async_mutex;
using turnstile::redis::async_semaphore;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::redis::detail::context_life;
using turnstile::redis::detail::revocable_executor;
using turnstile::test::attempt;
using turnstile::test::drain;
using turnstile::test::end_of;
using turnstile::test::owning_executor;
using turnstile::test::path;
using turnstile::test::redis_server;
using turnstile::test::start;
using turnstile::test::undisturbed;
using turnstile::test::until;
using guard_attempt = attempt<async_mutex::guard_type>;

/// A holder, waiters of both contexts, and a release without an answer.
class world
{
public:
    world(const config& settings, session_thread thread, const std::string& name)
        : is_shared_(thread == session_thread::shared)
        , session_(std::make_unique<session>(contexts_[0]->get_executor(), settings, thread))
        , mutex_(std::make_unique<async_mutex>(*session_, name))
        , other_(std::make_unique<async_mutex>(*session_, "other " + name))
    {
    }

    /// Prepares this state. It needs a reachable server.
    void prepare()
    {
        wait(1, path::handler, *mutex_, holder_);
        BOOST_REQUIRE(until([&] { return run().holder_.is_complete(); }));
        wait(0, path::handler, *mutex_, waiters_[0]);
        wait(0, path::coroutine, *mutex_, waiters_[1]);
        wait(1, path::handler, *mutex_, waiters_[2]);
        wait(1, path::coroutine, *mutex_, waiters_[3]);
        wait(1, path::handler, *other_, released_);
        BOOST_REQUIRE(until([&] { return run().released_.is_complete(); }));
        BOOST_REQUIRE(until([&] { return run().session_->metrics().acquires == 6; }));
        holder_.value().lost().assign([](asio::cancellation_type) {});
        turnstile::test::launch(path::handler, contexts_[1]->get_executor(), release_,
                                [&] { return released_.value().async_unlock(); });
    }

    void destroy(int victim)
    {
        switch (victim)
        {
        case 0:
        case 1:
            return contexts_[victim].reset();
        case 2:
            return session_.reset();
        case 3:
            mutex_.reset();
            return other_.reset();
        default:
            holder_.value() = {};
        }
    }

    world& run()
    {
        for (auto& each : contexts_)
            if (each)
                drain(*each);
        return *this;
    }

    /// No waiter completes twice, waits in a destroyed context, or waits for a destroyed object.
    void check(bool ran)
    {
        for (int i = 0; i < 4; ++i)
        {
            const std::string state = waiters_[i].state();
            BOOST_TEST(state != "completed twice");
            const auto& context = contexts_[i / 2];
            if (!context)
                BOOST_TEST(state != "waiting");
            // A session ends with its context, unless it runs on its own thread.
            if (ran && context && (!session_ || (!contexts_[0] && is_shared_)))
                BOOST_TEST(until([&] { return run().waiters_[i].is_complete(); }));
        }
        BOOST_TEST(release_.state() != "completed twice");
    }

private:
    void wait(int context, path how, async_mutex& mutex, guard_attempt& a)
    {
        start(how, asio::any_io_executor(contexts_[context]->get_executor()), a,
              [&mutex] { return mutex.async_lock(); });
        drain(*contexts_[context]);
    }

    // The attempts outlive all other members.
    guard_attempt holder_;
    std::array<guard_attempt, 4> waiters_;
    guard_attempt released_;
    attempt<> release_;
    std::array<std::unique_ptr<asio::io_context>, 2> contexts_{
        std::make_unique<asio::io_context>(), std::make_unique<asio::io_context>()};
    const bool is_shared_;
    std::unique_ptr<session> session_;
    std::unique_ptr<async_mutex> mutex_;
    std::unique_ptr<async_mutex> other_;
};

void destroy_in_every_order(session_thread thread)
{
    const redis_server server;
    int worlds = 0;
    for (const bool run_between : {false, true})
    {
        std::array order{0, 1, 2, 3, 4};
        do
        {
            // Destroyed worlds do not release their locks, so each world has its own.
            world w(undisturbed(server.url()), thread, std::to_string(++worlds));
            w.prepare();
            for (const int victim : order)
            {
                w.destroy(victim);
                if (run_between)
                    w.run();
                w.check(run_between);
            }
        } while (std::ranges::next_permutation(order).found);
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(objects_can_be_destroyed_in_any_order_with_a_session_on_a_context)
{
    destroy_in_every_order(session_thread::shared);
}

BOOST_AUTO_TEST_CASE(objects_can_be_destroyed_in_any_order_with_a_session_on_a_thread)
{
    destroy_in_every_order(session_thread::own);
}

BOOST_AUTO_TEST_CASE(objects_of_an_unconnected_session_can_be_destroyed_in_any_order)
{
    const turnstile::test::closed_port nobody;
    for (const session_thread thread : {session_thread::shared, session_thread::own})
        for (const bool context_first : {false, true})
            for (const bool runs : {false, true})
            {
                auto context = std::make_unique<asio::io_context>();
                guard_attempt waiter;
                auto unconnected = std::make_unique<session>(
                    *context, config("redis://127.0.0.1:" + std::to_string(nobody.number())),
                    thread);
                auto mutex = std::make_unique<async_mutex>(*unconnected, "a");
                start(path::handler, asio::any_io_executor(context->get_executor()), waiter,
                      [&] { return mutex->async_lock(); });
                if (runs)
                    drain(*context);
                if (context_first)
                    context.reset();
                mutex.reset();
                unconnected.reset();
                context.reset();
                BOOST_TEST(waiter.state() != "waiting");
            }
}

BOOST_AUTO_TEST_CASE(a_session_that_is_closed_without_a_server_has_certainly_not_released_units)
{
    const turnstile::test::closed_port nobody;
    asio::io_context context;
    session s(context, config("redis://127.0.0.1:" + std::to_string(nobody.number()) +
                              "?connect_timeout=1s"));
    async_semaphore semaphore(s, "a", 5);
    attempt<> release;
    start(path::handler, context, release, [&] { return semaphore.async_release(2); });
    attempt<> close;
    turnstile::test::launch(path::handler, context.get_executor(), close,
                            [&] { return s.async_close(); });
    BOOST_TEST(end_of(context, release) == "the session is closed");
    BOOST_TEST(end_of(context, close) != "waiting");
}

BOOST_AUTO_TEST_CASE(a_session_that_is_closed_without_a_server_has_certainly_not_changed_a_gate)
{
    const turnstile::test::closed_port nobody;
    asio::io_context context;
    session s(context, config("redis://127.0.0.1:" + std::to_string(nobody.number()) +
                              "?connect_timeout=1s"));
    turnstile::redis::event event(s, "a");
    turnstile::redis::latch latch(s, "a", 3);
    turnstile::redis::barrier barrier(s, "a", 3);
    std::array<attempt<>, 3> changes;
    start(path::handler, context, changes[0], [&] { return event.async_set(); });
    start(path::handler, context, changes[1], [&] { return latch.async_count_down(2); });
    start(path::handler, context, changes[2], [&] { return barrier.async_arrive_and_drop(); });
    attempt<bool> read;
    start(path::handler, context, read, [&] { return event.async_is_set(); });
    attempt<> close;
    turnstile::test::launch(path::handler, context.get_executor(), close,
                            [&] { return s.async_close(); });
    for (const auto& change : changes)
        BOOST_TEST(end_of(context, change) == "the session is closed");
    BOOST_TEST(end_of(context, read) == "the session is closed");
    // Nothing is left to be sent, so the session does not wait for a connection.
    BOOST_TEST(end_of(context, close) == "done");
}

// --- the session's own thread -------------------------------------------------------------------

BOOST_DATA_TEST_CASE(a_session_thread_renews_leases_while_the_context_is_blocked,
                     data::make({true, false}), own)
{
    const redis_server server;
    asio::io_context context;
    auto settings = turnstile::test::short_leases(server.url());
    if (own)
    {
        // The first renewal comes soon, and long before the end of the lease.
        settings.lease = 30s;
        settings.renew_fraction = 0.05;
        settings.health_check = 10s;
    }
    settings.claim_lease = settings.lease;
    session s(context, settings, own ? session_thread::own : session_thread::shared);
    async_mutex mutex(s, "a");
    guard_attempt holder;
    start(path::handler, asio::any_io_executor(context.get_executor()), holder,
          [&] { return mutex.async_lock(); });
    BOOST_REQUIRE(until(
        [&]
        {
            drain(context);
            return holder.is_complete();
        }));
    const auto first_end = holder.value().expires_at();
    turnstile::test::lock_client other(undisturbed(server.url()));
    BOOST_TEST(!other.ready());
    const auto rival = other.lock("a");
    // The ping shows that the server has executed the acquire.
    BOOST_TEST(!other.ping());
    // From here on, the test does not run the context, like a service whose only thread is blocked.
    if (own)
    {
        BOOST_TEST(until([&] { return holder.value().expires_at() > first_end; }));
        BOOST_TEST(holder.value().valid());
        BOOST_TEST(!rival->is_complete());
    }
    else
    {
        BOOST_TEST(rival->result() == "held");
        BOOST_TEST(!holder.value().valid());
    }
}

BOOST_DATA_TEST_CASE(a_handler_on_another_executor_does_not_need_the_fallback_executor,
                     data::make({false, true}), destroys)
{
    const redis_server server;
    asio::io_context context;
    // Nothing runs it.
    auto blocked = std::make_unique<asio::io_context>();
    session s(*blocked, undisturbed(server.url()), session_thread::own);
    async_semaphore semaphore(s, "a", 0, 10);
    turnstile::redis::event event(s, "b", turnstile::event_reset::automatic);
    turnstile::redis::semaphore_directory directory(s, "c");
    attempt<turnstile::redis::semaphore_answer> creation;
    start(path::handler, context, creation, [&] { return directory.async_create("d", 3); });
    BOOST_TEST(end_of(context, creation) == "done");
    const auto found = directory.find("d");
    attempt<async_semaphore::permit_type> permit;
    start(path::handler, context, permit, [&] { return found->async_acquire(2); });
    BOOST_TEST(end_of(context, permit) == "done");

    attempt<> release;
    attempt<> change;
    attempt<> set;
    attempt<turnstile::redis::semaphore_answer> keep;
    start(path::handler, context, release, [&] { return semaphore.async_release(2); });
    start(path::handler, context, change, [&] { return semaphore.async_set_capacity(12); });
    start(path::handler, context, set, [&] { return event.async_set(); });
    start(path::handler, context, keep,
          [&] { return directory.async_keep("d", permit.value(), {60s, "e"}); });
    if (destroys)
        blocked.reset();
    BOOST_TEST(end_of(context, release) == "done");
    BOOST_TEST(end_of(context, change) == "done");
    BOOST_TEST(end_of(context, set) == "done");
    BOOST_TEST(end_of(context, keep) == "done");
}

// Otherwise the grant, the units and the notification would go to nobody.
BOOST_AUTO_TEST_CASE(the_end_of_a_context_cancels_its_waits)
{
    const redis_server server;
    asio::io_context context;
    session s(context, undisturbed(server.url()), session_thread::own);
    async_mutex mutex(s, "a");
    async_semaphore units(s, "b", 0, 10);
    turnstile::redis::event event(s, "c", turnstile::event_reset::automatic);
    async_mutex conditional(s, "d");
    turnstile::redis::condition condition(conditional, "e");
    // All commands use one connection, so the server has received those before.
    const auto waiters = [&]
    {
        attempt<turnstile::redis::lock_status> inspection;
        start(path::handler, context, inspection, [&] { return mutex.async_inspect(); });
        BOOST_TEST(end_of(context, inspection) == "done");
        return inspection.value().waiter_count;
    };

    // The attempts outlive the contexts.
    guard_attempt holder;
    guard_attempt lock;
    attempt<> take;
    attempt<> passage;
    std::array<guard_attempt, 2> guards;
    std::array<attempt<>, 2> waits;
    auto ending = std::make_unique<asio::io_context>();
    start(path::handler, context, holder, [&] { return mutex.async_lock(); });
    BOOST_REQUIRE(end_of(context, holder) == "done");
    for (int i = 0; i < 2; ++i)
    {
        asio::io_context& home = i == 0 ? *ending : context;
        start(path::handler, home, guards[i], [&] { return conditional.async_lock(); });
        BOOST_REQUIRE(end_of(home, guards[i]) == "done");
        start(path::handler, home, waits[i],
              [&] { return condition.async_wait(guards[i].value()); });
    }
    start(path::handler, *ending, lock, [&] { return mutex.async_lock(); });
    start(path::handler, *ending, take, [&] { return units.async_take(2); });
    start(path::handler, *ending, passage, [&] { return event.async_wait(); });
    BOOST_TEST(waiters() == 1U);

    ending.reset();
    BOOST_TEST(waiters() == 0U);
    condition.notify_one();
    BOOST_TEST(end_of(context, waits[1]) == "done");
    attempt<> release;
    attempt<std::ptrdiff_t> available;
    attempt<> set;
    attempt<bool> remains_set;
    start(path::handler, context, release, [&] { return units.async_release(2); });
    start(path::handler, context, available, [&] { return units.async_available(); });
    start(path::handler, context, set, [&] { return event.async_set(); });
    start(path::handler, context, remains_set, [&] { return event.async_is_set(); });
    BOOST_TEST(end_of(context, release) == "done");
    BOOST_TEST(end_of(context, available) == "done");
    BOOST_TEST(available.value() == 2);
    BOOST_TEST(end_of(context, set) == "done");
    BOOST_TEST(end_of(context, remains_set) == "done");
    BOOST_TEST(remains_set.value());
}

// The server never answers, so the end of the session has to complete the operations, by local steps only.
BOOST_DATA_TEST_CASE(a_destroyed_session_completes_its_operations,
                     data::make({false, true}) * data::make({false, true}), own, closes)
{
    redis_server server;
    asio::io_context context;
    auto s = std::make_unique<session>(context, undisturbed(server.url()),
                                       own ? session_thread::own : session_thread::shared);
    async_mutex mutex(*s, "a");
    async_mutex held(*s, "b");
    turnstile::redis::semaphore_directory directory(*s, "c");
    async_mutex kept(*s, "e");
    async_semaphore units(*s, "f", 1);
    guard_attempt holder;
    guard_attempt keeper;
    start(path::handler, context, holder, [&] { return held.async_lock(); });
    start(path::handler, context, keeper, [&] { return kept.async_lock(); });
    BOOST_REQUIRE(end_of(context, holder) == "done");
    BOOST_REQUIRE(end_of(context, keeper) == "done");
    BOOST_TEST(keeper.value().valid());

    server.pause();
    guard_attempt lock;
    attempt<> release;
    attempt<> ping;
    attempt<turnstile::redis::lock_status> inspection;
    attempt<std::size_t> removal;
    attempt<turnstile::redis::semaphore_answer> creation;
    attempt<turnstile::redis::semaphore_page> list;
    attempt<std::ptrdiff_t> available;
    attempt<> close;
    start(path::handler, context, lock, [&] { return mutex.async_lock(); });
    start(path::handler, context, release, [&] { return holder.value().async_unlock(); });
    start(path::handler, context, ping, [&] { return s->async_ping(); });
    start(path::handler, context, inspection, [&] { return mutex.async_inspect(); });
    start(path::handler, context, removal, [&] { return mutex.async_break(); });
    start(path::handler, context, creation, [&] { return directory.async_create("d", 1); });
    start(path::handler, context, list, [&] { return directory.async_list("", 10); });
    start(path::handler, context, available, [&] { return units.async_available(); });
    if (closes)
        start(path::handler, context, close, [&] { return s->async_close(); });
    s.reset();

    // A shared session ends on its executor, which has not run yet.
    if (own || closes)
        BOOST_TEST(!keeper.value().valid());
    const std::string unknown = make_error_code(errc::unknown_outcome).message();
    const std::string session_closed = make_error_code(errc::session_closed).message();
    BOOST_TEST(end_of(context, lock) == (closes ? session_closed : "aborted"));
    BOOST_TEST(end_of(context, release) == "aborted");
    BOOST_TEST(end_of(context, ping) == make_error_code(errc::unreachable).message());
    BOOST_TEST(end_of(context, inspection) == unknown);
    BOOST_TEST(end_of(context, removal) == unknown);
    BOOST_TEST(end_of(context, creation) == unknown);
    BOOST_TEST(end_of(context, list) == unknown);
    BOOST_TEST(end_of(context, available) == (closes ? unknown : "aborted"));
    BOOST_TEST(end_of(context, close) == (closes ? "aborted" : "idle"));
    BOOST_TEST(!keeper.value().valid());
}

// A context that an exception destroys ends its operations like any other.
BOOST_DATA_TEST_CASE(an_operation_is_aborted_if_the_context_of_its_session_is_destroyed,
                     data::make({false, true}) * data::make({false, true}), starts_in_unwinding,
                     ends_in_unwinding)
{
    const turnstile::test::closed_port nobody;
    asio::io_context context;
    guard_attempt waiter;
    std::optional<asio::io_context> session_context(std::in_place);
    config settings("redis://127.0.0.1:" + std::to_string(nobody.number()));
    settings.logger = nullptr;
    session s(*session_context, settings);
    async_mutex mutex(s, "a");
    const auto unwind = [](const auto& function)
    {
        const auto throwing = [&]
        {
            const std::shared_ptr<void> guard(nullptr, [&](void*) { function(); });
            throw std::runtime_error("unwinds");
        };
        BOOST_CHECK_THROW(throwing(), std::runtime_error);
    };
    const auto lock = [&]
    { start(path::handler, context, waiter, [&] { return mutex.async_lock(); }); };
    const auto end = [&] { session_context.reset(); };
    if (starts_in_unwinding)
        unwind(lock);
    else
        lock();
    drain(*session_context);
    if (ends_in_unwinding)
        unwind(end);
    else
        end();
    BOOST_TEST(end_of(context, waiter) == "aborted");
}

// A thread must not confuse a destroyed context with a new one at the same address.
BOOST_AUTO_TEST_CASE(contexts_at_one_address_have_lives_of_their_own)
{
    const redis_server server;
    std::optional<asio::io_context> context;
    for (int i = 0; i < 3; ++i)
    {
        context.emplace();
        const auto s = std::make_unique<session>(*context, undisturbed(server.url()));
        async_mutex mutex(*s, "lock " + std::to_string(i));
        guard_attempt holder;
        start(path::handler, asio::any_io_executor(context->get_executor()), holder,
              [&] { return mutex.async_lock(); });
        BOOST_REQUIRE(until(
            [&]
            {
                drain(*context);
                return holder.is_complete();
            }));
        BOOST_TEST(s->metrics().acquires == 1U);
        context.reset();
        // The engine belongs to the context, and was destroyed with it.
        BOOST_TEST(s->metrics().acquires == 0U);
    }
}

// For instance, its destructor closes a session.
BOOST_AUTO_TEST_CASE(a_thread_local_object_may_start_an_operation_when_its_thread_ends)
{
    asio::io_context former;
    asio::io_context latter;
    const context_life* found = nullptr;
    std::thread(
        [&]
        {
            struct starter
            {
                asio::io_context* context;
                const context_life** to;
                ~starter() { *to = context_life::of(context->get_executor()); }
            };
            // Destroyed after all that the library keeps for the thread.
            thread_local const starter late{&latter, &found};
            static_cast<void>(late);
            context_life::of(former.get_executor());
        })
        .join();
    BOOST_TEST(found == context_life::of(latter.get_executor()));
}

BOOST_AUTO_TEST_CASE(a_context_at_the_address_of_a_former_one_has_its_own_life)
{
    std::optional<asio::io_context> context(std::in_place);
    const context_life* const former = context_life::of(context->get_executor());
    BOOST_TEST(former->is_empty());
    context.emplace();
    context_life* const life = context_life::of(context->get_executor());
    BOOST_TEST_REQUIRE(asio::has_service<context_life>(*context));
    BOOST_TEST(life == &asio::use_service<context_life>(*context));
}

// For instance, the owned object is a guard whose losses are reported on an executor of the same context.
BOOST_DATA_TEST_CASE(an_executor_may_own_an_object_that_keeps_another_one,
                     data::make({false, true}), context_ends_first)
{
    auto context = std::make_unique<asio::io_context>();
    auto owned = std::make_shared<revocable_executor>(context->get_executor());
    auto keeper = std::make_unique<revocable_executor>(
        owning_executor(std::shared_ptr<asio::io_context>(owned, context.get())));
    const std::weak_ptr<revocable_executor> observer = std::exchange(owned, nullptr);
    if (context_ends_first)
        context.reset();
    else
        keeper.reset();
    BOOST_TEST(observer.expired());
}

BOOST_AUTO_TEST_CASE(an_executor_may_own_its_context)
{
    auto context = std::make_shared<asio::io_context>();
    auto keeper = std::make_unique<revocable_executor>(owning_executor(context));
    const std::weak_ptr<asio::io_context> observer = std::exchange(context, nullptr);
    keeper.reset();
    BOOST_TEST(observer.expired());
}

namespace {

/// Runs functions in a context. Before the next one, it calls a function of the test once.
class interruptible_executor
{
public:
    interruptible_executor(asio::io_context& context, std::function<void()>& interruption) noexcept
        : context_(&context)
        , interruption_(&interruption)
    {
    }

    [[nodiscard]] asio::io_context& query(asio::execution::context_t) const noexcept
    {
        return *context_;
    }

    [[nodiscard]] static constexpr asio::execution::blocking_t query(
        asio::execution::blocking_t) noexcept
    {
        return asio::execution::blocking.never;
    }

    [[nodiscard]] interruptible_executor require(
        asio::execution::blocking_t::never_t) const noexcept
    {
        return *this;
    }

    template <class F>
    void execute(F f) const
    {
        if (const auto call = std::exchange(*interruption_, nullptr))
            call();
        asio::require(context_->get_executor(), asio::execution::blocking.never)
            .execute(std::move(f));
    }

    friend bool operator==(const interruptible_executor&,
                           const interruptible_executor&) noexcept = default;

private:
    asio::io_context* context_;
    std::function<void()>* interruption_;
};

}  // namespace

// Another thread may release a lock at the moment at which the destructor of the session has posted its end.
BOOST_AUTO_TEST_CASE(a_release_or_wait_during_the_end_of_the_session_completes)
{
    const redis_server server;
    asio::io_context context;
    std::function<void()> interruption;
    auto s = std::make_unique<session>(interruptible_executor(context, interruption),
                                       undisturbed(server.url()));
    async_mutex mutex(*s, "a");
    async_semaphore semaphore(*s, "b", 5);
    async_mutex conditional(*s, "c");
    turnstile::redis::condition condition(conditional, "d");
    guard_attempt guard;
    guard_attempt waiting_guard;
    start(path::handler, context, guard, [&] { return mutex.async_lock(); });
    BOOST_REQUIRE(end_of(context, guard) == "done");
    start(path::handler, context, waiting_guard, [&] { return conditional.async_lock(); });
    BOOST_REQUIRE(end_of(context, waiting_guard) == "done");
    attempt<async_semaphore::permit_type> permit;
    start(path::handler, context, permit, [&] { return semaphore.async_acquire(3); });
    BOOST_REQUIRE(end_of(context, permit) == "done");
    async_semaphore::permit_type part = permit.value().split(1);

    attempt<> release;
    attempt<> partial_release;
    attempt<> last_release;
    attempt<> wait;
    interruption = [&]
    {
        turnstile::test::launch(path::handler, context.get_executor(), release,
                                [&] { return guard.value().async_unlock(); });
        turnstile::test::launch(path::handler, context.get_executor(), partial_release,
                                [&] { return part.async_release(); });
        turnstile::test::launch(path::handler, context.get_executor(), last_release,
                                [&] { return permit.value().async_release(); });
        turnstile::test::launch(path::handler, context.get_executor(), wait,
                                [&] { return condition.async_wait(waiting_guard.value()); });
    };
    s.reset();
    BOOST_TEST(!interruption);
    BOOST_TEST(end_of(context, release) == "the session is closed");
    BOOST_TEST(end_of(context, partial_release) == "the session is closed");
    BOOST_TEST(end_of(context, last_release) == "the session is closed");
    BOOST_TEST(end_of(context, wait) == "the session is closed");
}

namespace {

/// An executor whose conversion fails, as for lack of memory.
class failing_executor
{
public:
    explicit failing_executor(asio::io_context& context) noexcept
        : context_(&context)
    {
    }

    [[nodiscard]] asio::io_context& query(asio::execution::context_t /*property*/) const noexcept
    {
        return *context_;
    }

    [[nodiscard]] asio::execution::blocking_t query(
        asio::execution::blocking_t /*property*/) const noexcept
    {
        return asio::execution::blocking.possibly;
    }

    [[nodiscard]] failing_executor require(asio::execution::blocking_t::never_t /*property*/) const
    {
        throw std::bad_alloc();
    }

    template <class F>
    void execute(F f) const
    {
        context_->get_executor().execute(std::move(f));
    }

    friend bool operator==(const failing_executor&, const failing_executor&) noexcept = default;

private:
    asio::io_context* context_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_that_fails_for_lack_of_memory_leaves_nothing_in_its_context)
{
    const redis_server server;
    asio::io_context home;
    asio::io_context context;
    session s(home, undisturbed(server.url()));
    BOOST_CHECK_THROW(s.async_ping(asio::bind_executor(failing_executor(context),
                                                       [](const turnstile::error_code&) {})),
                      std::bad_alloc);
    const auto* const life = context_life::of(context.get_executor());
    BOOST_TEST(life->is_empty());
}

// An object of the user may own the session, and the session's thread may drop the last reference to that object.
BOOST_AUTO_TEST_CASE(a_session_can_be_destroyed_on_its_own_thread)
{
    const redis_server server;
    asio::io_context context;
    std::weak_ptr<void> logger;
    {
        const auto called = std::make_shared<std::once_flag>();
        logger = called;
        std::promise<session*> made;
        config settings = undisturbed(server.url());
        settings.notice = "a line that the session logs when it starts";
        settings.logger = [called, owned = made.get_future().share()](turnstile::redis::log_level,
                                                                      std::string_view)
        { std::call_once(*called, [&] { std::unique_ptr<session>(owned.get()).reset(); }); };
        made.set_value(new session(context, settings, session_thread::own));
    }
    // The thread ends, too, and destroys all that belongs to the session.
    BOOST_TEST(until([&] { return logger.expired(); }));
}

// --- the clock of leases ------------------------------------------------------------------------

#ifdef __linux__

namespace {

/// The number of active timers of this process that continue while the machine sleeps.
int boot_timers()
{
    int result = 0;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fdinfo"))
    {
        std::ifstream lines(each.path());
        bool is_of_boot_time = false;
        for (std::string line; std::getline(lines, line);)
        {
            is_of_boot_time =
                is_of_boot_time || line == "clockid: " + std::to_string(CLOCK_BOOTTIME);
            if (is_of_boot_time && line.starts_with("it_value: ") && line != "it_value: (0, 0)")
                ++result;
        }
    }
    return result;
}

}  // namespace

// A loss is reported as soon as the machine resumes. The time of its sleep does not delay the report.
BOOST_AUTO_TEST_CASE(the_end_of_a_lease_is_timed_by_the_clock_of_leases)
{
    const redis_server server;
    turnstile::test::lock_client client(undisturbed(server.url()));
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(until([] { return boot_timers() == 1; }));
}

BOOST_AUTO_TEST_CASE(the_leases_of_jobs_and_of_arrivals_are_timed_by_the_clock_of_leases)
{
    const redis_server server;
    asio::io_context context;
    {
        session s(context, undisturbed(server.url()), session_thread::own);
        turnstile::redis::job_queue<std::string> queue(s, "a");
        queue.async_push("payload", asio::use_future).get();
        const auto job = queue.async_next(asio::use_future).get();
        BOOST_TEST(until([] { return boot_timers() == 1; }));
    }
    session s(context, undisturbed(server.url()), session_thread::own);
    turnstile::redis::barrier barrier(s, "b", 2);
    attempt<> arrival;
    start(path::handler, context, arrival, [&] { return barrier.async_arrive_and_wait(); });
    BOOST_TEST(until([] { return boot_timers() == 1; }));
}

#endif

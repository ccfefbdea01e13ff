// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of docs/readers_writers.md. Runs with a server, whose URL is in TURNSTILE_REDIS_URL.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/describe/class.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string_view>
#include <thread>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/transaction.hpp>
#include <utility>

namespace asio = boost::asio;
namespace redis = turnstile::redis;

namespace {

void check(bool condition)
{
    if (!condition)
        std::abort();
}

/// Starts a coroutine beside the one that calls this.
asio::awaitable<void> start(asio::awaitable<void> other, bool& done)
{
    asio::co_spawn(co_await asio::this_coro::executor, std::move(other),
                   [&](const std::exception_ptr& error)
                   {
                       check(!error);
                       done = true;
                   });
}

/// Lets other coroutines run until a predicate holds.
asio::awaitable<void> until(const std::function<bool()>& condition)
{
    while (!condition())
        co_await asio::post(asio::deferred);
}

/// Commands that a session has sent for its monitors.
std::uint64_t sent(const redis::session& session)
{
    const redis::session_metrics now = session.metrics();
    return now.acquires + now.releases + now.fetches + now.signals + now.transactions;
}

// [state]
struct room
{
    int readers = 0;
    int writers = 0;
};
BOOST_DESCRIBE_STRUCT(room, (), (readers, writers))
// [state]

/// The monitor and its conditions.
struct library
{
    library(redis::session& session, std::string_view name, const redis::mutex_options& options)
        : monitor(session, name, room(), options)
    {
    }

    redis::monitor<room> monitor;
    redis::monitor<room>::condition_type ok_to_read = monitor.make_condition("ok_to_read");
    redis::monitor<room>::condition_type ok_to_write = monitor.make_condition("ok_to_write");
};

struct by_sections : library
{
    using library::library;

    // [reader]
    asio::awaitable<void> enter_to_read()
    {
        auto body = [this](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(ok_to_read, [](const room& r) { return r.writers == 0; });
            ++section->readers;
        };
        co_await monitor.async_with(body);
    }

    asio::awaitable<void> leave_after_reading()
    {
        auto body = [this](auto& section)
        {
            if (--section->readers == 0)
                section.notify_one(ok_to_write);
        };
        co_await monitor.async_with(body);
    }
    // [reader]

    // [writer]
    asio::awaitable<void> enter_to_write()
    {
        auto body = [this](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(ok_to_write, [](const room& r)
                                        { return r.readers == 0 && r.writers == 0; });
            ++section->writers;
        };
        co_await monitor.async_with(body);
    }

    asio::awaitable<void> leave_after_writing()
    {
        auto body = [this](auto& section)
        {
            --section->writers;
            section.notify_one(ok_to_write);
            section.notify_all(ok_to_read);
        };
        co_await monitor.async_with(body);
    }
    // [writer]
};

asio::awaitable<void> sections(redis::session& session)
{
    by_sections ours(session, "sections", redis::mutex_options());
    const auto before = sent(session);
    co_await ours.enter_to_read();
    co_await ours.leave_after_reading();
    check(sent(session) - before == 4);
    co_await ours.enter_to_write();
    co_await ours.leave_after_writing();
    check(sent(session) - before == 8);

    // The reader waits for the condition: five commands, in addition to the four of the writer.
    bool has_read = false;
    const std::function<bool()> is_over = [&] { return has_read; };
    const std::function<bool()> sleeps = [&] { return sent(session) - before == 8 + 2 + 2; };
    const auto visit = [&]() -> asio::awaitable<void>
    {
        co_await ours.enter_to_read();
        co_await ours.leave_after_reading();
    };
    co_await ours.enter_to_write();
    co_await start(visit(), has_read);
    co_await until(sleeps);
    co_await ours.leave_after_writing();
    co_await until(is_over);
    check(sent(session) - before == 8 + 4 + 5);
}

/// Two readers leave.
template <class Enter, class Leave>
asio::awaitable<void> among_others(redis::monitor<room>& monitor, const Enter& enter_to_read,
                                   const Leave& leave_after_reading)
{
    co_await monitor.async_transact(enter_to_read);
    co_await monitor.async_transact(enter_to_read);

    // [not_the_last]
    const auto leave_others = turnstile::transaction<room>()
                                  .require(&room::readers, std::greater(), 1)
                                  .add(&room::readers, -1);

    bool has_left = co_await monitor.async_transact(leave_others);
    if (!has_left)
        co_await monitor.async_transact(leave_after_reading);
    // [not_the_last]
    check(has_left);
    has_left = co_await monitor.async_transact(leave_others);
    check(!has_left);
    co_await monitor.async_transact(leave_after_reading);
}

asio::awaitable<void> transactions(redis::session& session)
{
    library ours(session, "transactions", redis::mutex_options());
    auto& [monitor, ok_to_read, ok_to_write] = ours;
    // The first transaction writes the whole state, which takes a critical section.
    co_await monitor.async_transact(turnstile::transaction<room>().add(&room::readers, 1));
    co_await monitor.async_transact(turnstile::transaction<room>().add(&room::readers, -1));
    const auto before = sent(session);

    // [transactions]
    const turnstile::transaction<room> nothing;

    const auto enter_to_read = nothing.require(&room::writers, std::equal_to(), 0)
                                   .wait_on(ok_to_read)
                                   .add(&room::readers, 1);
    const auto leave_after_reading = nothing.add(&room::readers, -1).notify_one(ok_to_write);

    const auto enter_to_write = nothing.require(&room::readers, std::equal_to(), 0)
                                    .require(&room::writers, std::equal_to(), 0)
                                    .wait_on(ok_to_write)
                                    .add(&room::writers, 1);
    const auto leave_after_writing =
        nothing.add(&room::writers, -1).notify_one(ok_to_write).notify_all(ok_to_read);

    co_await monitor.async_transact(enter_to_read);
    // ... read
    co_await monitor.async_transact(leave_after_reading);
    // [transactions]
    check(sent(session) - before == 2);
    co_await monitor.async_transact(enter_to_write);
    co_await monitor.async_transact(leave_after_writing);
    check(sent(session) - before == 4);
    co_await among_others(monitor, enter_to_read, leave_after_reading);
    check(sent(session) - before == 4 + 2 + 1 + 2);

    // The reader waits for the condition: still two commands, in addition to the two of the writer.
    bool has_read = false;
    const std::function<bool()> is_over = [&] { return has_read; };
    const std::function<bool()> sleeps = [&] { return sent(session) - before == 9 + 1 + 1; };
    const auto visit = [&]() -> asio::awaitable<void>
    {
        co_await monitor.async_transact(enter_to_read);
        co_await monitor.async_transact(leave_after_reading);
    };
    co_await monitor.async_transact(enter_to_write);
    co_await start(visit(), has_read);
    co_await until(sleeps);
    co_await monitor.async_transact(leave_after_writing);
    co_await until(is_over);
    check(sent(session) - before == 9 + 2 + 2);
}

struct by_contributions : library
{
    using library::library;

    // [contribution]
    asio::awaitable<redis::contribution> enter_to_read()
    {
        redis::contribution mine;
        auto body = [&](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(ok_to_read, [](const room& r) { return r.writers == 0; });
            mine = section.contribute(&room::readers, 1, ok_to_write);
        };
        co_await monitor.async_with(body);
        co_return mine;
    }

    asio::awaitable<void> leave_after_reading(redis::contribution& mine)
    {
        auto body = [&](auto& section)
        {
            if (section.withdraw(mine) && section->readers == 0)
                section.notify_one(ok_to_write);
        };
        co_await monitor.async_with(body);
    }
    // [contribution]

    // [writers_contribution]
    struct presence
    {
        redis::contribution counted;
        redis::contribution notifier;
        /// The token of its writes.
        std::uint64_t fence = 0;
    };

    asio::awaitable<presence> enter_to_write()
    {
        presence mine;
        auto body = [&](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(ok_to_write, [](const room& r)
                                        { return r.readers == 0 && r.writers == 0; });
            mine.counted = section.contribute(&room::writers, 1, ok_to_read);
            mine.notifier = section.contribute(&room::writers, 0, ok_to_write);
            mine.fence = section.fencing_token();
        };
        co_await monitor.async_with(body);
        co_return mine;
    }
    // [writers_contribution]

    asio::awaitable<void> leave_after_writing(presence& mine)
    {
        auto body = [&](auto& section)
        {
            section.withdraw(mine.notifier);
            if (section.withdraw(mine.counted))
            {
                section.notify_one(ok_to_write);
                section.notify_all(ok_to_read);
            }
        };
        co_await monitor.async_with(body);
    }
};

/// The work of another process, from its begin to its end or crash.
void in_another_process(const std::function<asio::awaitable<void>(redis::session&)>& what)
{
    std::thread(
        [&]
        {
            asio::io_context context;
            redis::session session(context, redis::config::from_environment());
            asio::co_spawn(context, what(session),
                           [&](const std::exception_ptr& error)
                           {
                               check(!error);
                               // The process ends without notifying the server.
                               context.stop();
                           });
            context.run();
        })
        .join();
}

/// Short enough to wait for, and long enough for a slow process.
redis::mutex_options short_lease()
{
    return redis::mutex_options().lease(std::chrono::seconds(4));
}

asio::awaitable<void> contributions(redis::session& session)
{
    by_contributions ours(session, "contributions", redis::mutex_options());
    const auto before = sent(session);
    auto mine = co_await ours.enter_to_read();
    check(mine.valid());
    co_await ours.leave_after_reading(mine);
    check(!mine.valid() && sent(session) - before == 4);

    redis::contribution reading;
    by_contributions::presence writing;
    const auto dying_reader = [&](redis::session& theirs) -> asio::awaitable<void>
    {
        by_contributions same(theirs, "contributions", short_lease());
        reading = co_await same.enter_to_read();
    };
    const auto dying_writer = [&](redis::session& theirs) -> asio::awaitable<void>
    {
        by_contributions same(theirs, "contributions", short_lease());
        writing = co_await same.enter_to_write();
    };
    in_another_process(dying_reader);
    // Enters when the server has undone the contribution of the reader.
    auto first = co_await ours.enter_to_write();
    co_await ours.leave_after_writing(first);
    in_another_process(dying_writer);
    auto second = co_await ours.enter_to_write();
    check(first.fence < writing.fence && writing.fence < second.fence);
    co_await ours.leave_after_writing(second);
}

asio::awaitable<void> a_stopped_process(redis::session& session)
{
    library ours(session, "stopped", short_lease());
    const auto add_one = [](redis::session& theirs) -> asio::awaitable<void>
    {
        redis::monitor<room> same(theirs, "stopped");
        co_await same.async_with([](auto& section) { ++section->readers; });
    };
    // This thread runs the session as well: nothing renews the lease meanwhile.
    const auto stand_still = [&] { in_another_process(add_one); };
    auto& monitor = ours.monitor;
    turnstile::error_code result;

    // [lost]
    auto body = [&](auto& section)
    {
        section->readers = 100;
        stand_still();  // until the lease has expired and another process has held the lock
    };
    try
    {
        co_await monitor.async_with(body);
    }
    catch (const turnstile::system_error& error)
    {
        result = error.code();  // turnstile::errc::lost: nothing was written
    }
    // [lost]
    check(result == turnstile::errc::lost);
    check(co_await monitor.async_with([](auto& section) { return section->readers; }) == 1);
}

asio::awaitable<void> all(asio::any_io_executor executor)
{
    redis::session session(executor, redis::config::from_environment());
    co_await sections(session);
    co_await transactions(session);
    co_await contributions(session);
    co_await a_stopped_process(session);
    co_await session.async_close();
}

}  // namespace

int main()
{
    asio::io_context context;
    bool done = false;
    asio::co_spawn(context, all(context.get_executor()),
                   [&](const std::exception_ptr& error)
                   {
                       if (error)
                           std::rethrow_exception(error);
                       done = true;
                   });
    context.run();
    check(done);
}

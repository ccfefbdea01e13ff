// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of docs/redis.md. Runs with a server, whose URL is in TURNSTILE_REDIS_URL.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/describe/class.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace {

using document_type = int;

/// Rejects a token that is lower than one it has seen.
struct storage_type
{
    boost::asio::awaitable<void> write(document_type what, std::uint64_t fence)
    {
        if (fence < highest)
            std::abort();
        highest = fence;
        written = what;
        co_return;
    }

    std::uint64_t highest = 0;
    document_type written = 0;
};

void check(bool condition)
{
    if (!condition)
        std::abort();
}

boost::asio::awaitable<void> first_lock(boost::asio::any_io_executor executor)
{
    turnstile::redis::session session{executor, turnstile::redis::config::from_environment()};
    turnstile::redis::async_mutex orders{session, "orders/42"};

    auto guard = co_await orders.async_lock();
    check(guard.valid());
    co_await guard.async_unlock();
    co_await session.async_close();
}

/// Represents state that all processes see.
struct shelf_type
{
    boost::asio::awaitable<int> count() { co_return parts; }
    boost::asio::awaitable<void> take(std::uint64_t /*fence*/)
    {
        --parts;
        co_return;
    }

    int parts = 0;
};

boost::asio::awaitable<void> take_one(turnstile::redis::session& session, shelf_type& shelf)
{
    // [condition]
    turnstile::redis::async_mutex mutex{session, "stock"};
    turnstile::redis::condition delivered{mutex, "delivered"};

    auto guard = co_await mutex.async_lock();
    while (co_await shelf.count() == 0)
        co_await delivered.async_wait(guard);
    co_await shelf.take(guard.fencing_token());
    // [condition]
    co_await guard.async_unlock();
}

boost::asio::awaitable<void> conditions(turnstile::redis::session& session)
{
    shelf_type shelf;
    bool is_taken = false;
    boost::asio::co_spawn(co_await boost::asio::this_coro::executor, take_one(session, shelf),
                          [&](const std::exception_ptr& error) { is_taken = !error; });
    turnstile::redis::async_mutex mutex{session, "stock"};
    turnstile::redis::condition delivered{mutex, "delivered"};
    // A notification without a waiter has no effect.
    while (!is_taken)
    {
        auto guard = co_await mutex.async_lock();
        if (shelf.parts == 0 && !is_taken)
            shelf.parts = 1;
        co_await delivered.async_notify_one();
        co_await guard.async_unlock();
    }
    check(is_taken);
}

// [monitor]
struct room
{
    int readers = 0;
    int writers = 0;
};
BOOST_DESCRIBE_STRUCT(room, (), (readers, writers))
// [monitor]

boost::asio::awaitable<void> monitors(turnstile::redis::session& session)
{
    // [section]
    turnstile::redis::monitor<room> library{session, "library"};
    auto ok_to_read = library.make_condition("ok_to_read");

    auto read = [&](auto& section) -> boost::asio::awaitable<void>
    {
        co_await section.async_wait(ok_to_read, [](const room& r) { return r.writers == 0; });
        ++section->readers;
        section.notify_all(ok_to_read);
    };
    co_await library.async_with(read);
    // [section]
    check(co_await library.async_with([](auto& section) { return section->readers; }) == 1);

    auto gone = library.make_condition("gone");
    // [contribution]
    turnstile::redis::contribution reading;
    co_await library.async_with([&](auto& section)
                                { reading = section.contribute(&room::readers, 1, gone); });
    // ... read, without the lock
    co_await library.async_with(
        [&](auto& section)
        {
            if (section.withdraw(reading))
                section.notify_all(gone);
        });
    // [contribution]

    auto ok_to_write = library.make_condition("ok_to_write");

    // [transaction]
    const auto enter = turnstile::transaction<room>()
                           .require(&room::writers, std::equal_to(), 0)
                           .wait_on(ok_to_read)
                           .add(&room::readers, 1);
    const auto leave =
        turnstile::transaction<room>().add(&room::readers, -1).notify_one(ok_to_write);

    co_await library.async_transact(enter);
    co_await library.async_transact(leave);
    // [transaction]
    check(co_await library.async_with([](auto& section) { return section->readers; }) == 1);
}

void print(document_type /*what*/) {}

boost::asio::awaitable<void> semaphores(turnstile::redis::session& session)
{
    const document_type document = 7;
    // [semaphore]
    turnstile::redis::async_semaphore printers{session, "printers", 3};

    auto permit = co_await printers.async_acquire(2);
    print(document);
    co_await permit.async_release();
    // [semaphore]
    check(co_await printers.async_available() == 3);

    // [p_and_v]
    // At first, 0 of 100 parts are available.
    turnstile::redis::async_semaphore parts{session, "parts", 0, 100};

    co_await parts.async_release(2);  // one process has made two
    co_await parts.async_take();      // another one uses one
    // [p_and_v]
    check(co_await parts.async_available() == 1);
}

boost::asio::awaitable<void> directories(turnstile::redis::session& session)
{
    using std::chrono::minutes;
    // [directory]
    turnstile::redis::semaphore_directory machines{session, "machines"};
    co_await machines.async_create("lathes", 2);

    const turnstile::redis::listed_permit_options terms{minutes(10), "order 42"};
    const auto taken = co_await machines.async_take("lathes", 1, terms);

    const auto lathes = machines.find("lathes");
    auto units = co_await lathes->async_acquire();  // waits
    const auto kept = co_await machines.async_keep("lathes", units, terms);

    co_await machines.async_release("lathes", kept.permit);  // in any process
    // [directory]
    check(taken.state.value == 1 && kept.state.value == 0);
    check((co_await machines.async_release("lathes", taken.permit)).state.value == 2);
}

boost::asio::awaitable<void> readers_and_writers(turnstile::redis::session& session)
{
    // [shared_mutex]
    turnstile::redis::shared_mutex catalogue{session, "catalogue"};
    {
        auto reading = co_await catalogue.async_lock_shared();
    }
    auto upgradable = co_await catalogue.async_lock_upgrade();
    auto writing = co_await catalogue.async_upgrade(upgradable);
    // [shared_mutex]
    check(writing.valid() && !upgradable.owns_lock());
}

boost::asio::awaitable<void> events(turnstile::redis::session& session)
{
    // [event]
    turnstile::redis::event ready{session, "ready"};

    co_await ready.async_set();   // one process
    co_await ready.async_wait();  // any number of others
    // [event]
    check(co_await ready.async_is_set());
}

boost::asio::awaitable<void> latches(turnstile::redis::session& session)
{
    // [latch]
    turnstile::redis::latch loaded{session, "import/42", 2};

    co_await loaded.async_count_down();       // one part is there
    co_await loaded.async_arrive_and_wait();  // and the last one
    // [latch]
    check(co_await loaded.async_try_wait());
}

void publish(document_type /*what*/) {}

boost::asio::awaitable<void> barriers(turnstile::redis::session& session)
{
    const bool is_first = true;
    const document_type results = 7;
    // [barrier]
    turnstile::redis::barrier round{session, "simulation", 1};

    co_await round.async_arrive_and_wait();
    if (is_first)
        publish(results);  // while the others wait
    co_await round.async_arrive_and_wait();
    // [barrier]
}

boost::asio::awaitable<void> fenced(turnstile::redis::session& session)
{
    turnstile::redis::async_mutex orders{session, "orders/42"};
    storage_type storage;
    const document_type document = 7;
    // [fenced]
    auto body = [&](auto& guard) -> boost::asio::awaitable<void>
    { co_await storage.write(document, guard.fencing_token()); };
    co_await turnstile::with_lock(orders, body);
    // [fenced]
    check(storage.written == 7 && storage.highest != 0);
}

struct stopped
{
};

/// Is run twice: at first until an operator breaks the lock.
struct reports_type
{
    boost::asio::awaitable<void> run(std::uint64_t fence)
    {
        check(fence > last);
        if (std::exchange(last, fence) != 0)
            throw stopped();
        co_await lock.async_break();
        boost::asio::steady_timer never{co_await boost::asio::this_coro::executor,
                                        boost::asio::steady_timer::time_point::max()};
        co_await never.async_wait();
    }

    turnstile::redis::async_mutex& lock;
    std::uint64_t last = 0;
};

boost::asio::awaitable<void> lead(turnstile::redis::session& session, reports_type& reports)
{
    // [leader]
    turnstile::redis::async_mutex leadership{session, "reports"};
    auto body = [&](auto& guard) -> boost::asio::awaitable<void>
    { co_await reports.run(guard.fencing_token()); };
    for (;;)
        try
        {
            co_await turnstile::with_lock(leadership, body);
        }
        catch (const turnstile::system_error& error)
        {
            if (error.code() != turnstile::errc::lost)
                throw;
        }
    // [leader]
}

boost::asio::awaitable<void> leaders(turnstile::redis::session& session)
{
    turnstile::redis::async_mutex lock{session, "reports"};
    reports_type reports{lock};
    bool is_stopped = false;
    try
    {
        co_await lead(session, reports);
    }
    catch (const stopped&)
    {
        is_stopped = true;
    }
    check(is_stopped);
}

void many(turnstile::redis::session& session)
{
    // [cohort]
    turnstile::redis::async_mutex orders{session, "orders/42",
                                         turnstile::redis::mutex_options().cohort(20)};
    // [cohort]
    check(orders.name() == "orders/42");
}

void durable(turnstile::redis::session& session)
{
    // [durable]
    turnstile::redis::mutex_options twice;
    twice.durability(1, std::chrono::seconds(2));
    turnstile::redis::async_mutex payments{session, "payments", twice};
    // [durable]
    check(twice.replicas() == 1);
}

void report(const std::string& /*session*/, bool /*connected*/, std::chrono::microseconds /*since*/,
            std::chrono::microseconds /*left*/ = {})
{
}

bool is_stuck(const turnstile::redis::lock_status& status)
{
    return status.is_held();
}

boost::asio::awaitable<bool> move_in_time(turnstile::redis::async_mutex& account, shelf_type& shelf)
{
    // [time_limit]
    // Throws errc::unreachable if the server cannot be reached after 10 seconds.
    auto guard = co_await account.async_try_lock_for(std::chrono::seconds(10));
    if (!guard)
        co_return false;  // others held the lock for the whole time
    co_await shelf.take(guard->fencing_token());
    co_await guard->async_unlock();  // throws errc::lost if the lock was lost
    // [time_limit]
    co_return true;
}

boost::asio::awaitable<void> time_limits(turnstile::redis::session& session)
{
    turnstile::redis::async_mutex account{session, "account:1"};
    shelf_type shelf{1};
    check(co_await move_in_time(account, shelf) && shelf.parts == 0);
}

boost::asio::awaitable<void> inspection(turnstile::redis::session& session)
{
    turnstile::redis::async_mutex held{session, "orders/42"};
    const auto guard = co_await held.async_lock();
    // [inspect]
    turnstile::redis::async_mutex orders{session, "orders/42"};

    const turnstile::redis::lock_status status = co_await orders.async_inspect();
    for (const auto& holder : status.holders)
        report(holder.session.name, holder.is_connected, holder.held_for, holder.lease_left);
    for (const auto& waiter : status.waiters)
        report(waiter.session.name, waiter.is_connected, waiter.waiting_for);

    if (is_stuck(status))
        co_await orders.async_break(status.holders.front().fencing_token);
    // [inspect]
    check(!(co_await orders.async_inspect()).is_held());
}

boost::asio::awaitable<void> all(boost::asio::any_io_executor executor)
{
    co_await first_lock(executor);
    turnstile::redis::session session{executor, turnstile::redis::config::from_environment()};
    co_await conditions(session);
    co_await monitors(session);
    co_await semaphores(session);
    co_await directories(session);
    co_await readers_and_writers(session);
    co_await events(session);
    co_await latches(session);
    co_await barriers(session);
    co_await fenced(session);
    co_await leaders(session);
    co_await time_limits(session);
    co_await inspection(session);
    many(session);
    durable(session);
    co_await session.async_close();
}

}  // namespace

int main()
{
    boost::asio::io_context context;
    bool done = false;
    boost::asio::co_spawn(context, all(context.get_executor()),
                          [&](const std::exception_ptr& error)
                          {
                              if (error)
                                  std::rethrow_exception(error);
                              done = true;
                          });
    context.run();
    check(done);
}

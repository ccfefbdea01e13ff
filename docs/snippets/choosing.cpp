// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The code of the page on choosing a primitive.

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstddef>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/barrier.hpp>
#include <turnstile/event.hpp>
#include <turnstile/latch.hpp>
#include <turnstile/shared_mutex.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;

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

/// Runs a coroutine, and all earlier ones, to their end.
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

// --- semaphore ------------------------------------------------------------------------------

struct database
{
    asio::awaitable<int> query()
    {
        most = std::max(most, ++active);
        co_await asio::post(asio::deferred);
        --active;
        co_return 1;
    }

    int active = 0;
    int most = 0;
};

// [semaphore]
// At most as many queries at once as there are units.
asio::awaitable<int> limited_query(turnstile::async_semaphore& units, database& db)
{
    auto permit = co_await units.async_acquire();
    co_return co_await db.query();
}
// [semaphore]

asio::awaitable<void> permits(asio::io_context& context)
{
    // [permits]
    turnstile::async_semaphore memory{context, 100};
    auto mine = co_await memory.async_acquire(60);
    auto yours = mine.split(20);           // a permit for another coroutine
    mine.merge(std::move(yours));          // and back
    const auto left = memory.available();  // 40
    mine.release();                        // or let the destructor do it
    // [permits]
    expect(left == 40 && memory.available() == 100, "permits add up");
}

// --- shared mutex ---------------------------------------------------------------------------

int loads = 0;

// [shared_mutex]
class cache
{
public:
    explicit cache(asio::io_context& context)
        : mutex_(context)
    {
    }

    asio::awaitable<std::string> get(std::string key)
    {
        {
            auto reading = co_await mutex_.async_lock_shared();
            if (const auto found = values_.find(key); found != values_.end())
                co_return found->second;
        }
        auto may_write = co_await mutex_.async_lock_upgrade();  // one at a time, beside the readers
        if (const auto found = values_.find(key); found != values_.end())
            co_return found->second;
        std::string value = co_await load(key);
        auto writing = co_await mutex_.async_upgrade(may_write);  // without any other holder
        values_[key] = value;
        co_return value;
    }

private:
    asio::awaitable<std::string> load(std::string key);

    turnstile::shared_mutex mutex_;
    std::map<std::string, std::string> values_;
};
// [shared_mutex]

asio::awaitable<std::string> cache::load(std::string key)
{
    ++loads;
    co_await asio::post(asio::deferred);
    co_return "value of " + key;
}

// --- event, latch, barrier ------------------------------------------------------------------

asio::awaitable<void> waits_for(turnstile::event& configured, int& woken)
{
    co_await configured.async_wait();
    ++woken;
}

void events(asio::io_context& context)
{
    int woken = 0;
    // [event]
    turnstile::event configured{context};  // manual reset: while it is set, every waiter passes
    asio::co_spawn(context, waits_for(configured, woken), asio::detached);
    asio::co_spawn(context, waits_for(configured, woken), asio::detached);
    configured.set();
    // [event]
    context.run();
    context.restart();
    expect(woken == 2, "both go on");

    // [automatic]
    // Each set() lets one waiter pass. Two sets without a waiter count as one.
    turnstile::event work_to_do{context, turnstile::event_reset::automatic};
    // [automatic]
    work_to_do.set();
    work_to_do.set();
    asio::co_spawn(context, waits_for(work_to_do, woken), asio::detached);
    asio::co_spawn(context, waits_for(work_to_do, woken), asio::detached);
    context.poll();
    expect(woken == 3, "sets do not add up");
    work_to_do.set();
    context.run();
    context.restart();
    expect(woken == 4, "the next set lets the next one through");
}

asio::awaitable<void> start_part(turnstile::latch& started)
{
    co_await asio::post(asio::deferred);
    started.count_down();
}

asio::awaitable<void> latches(asio::io_context& context)
{
    // [latch]
    turnstile::latch started{context, 3};
    for (int part = 0; part < 3; ++part)
        asio::co_spawn(context, start_part(started), asio::detached);  // each calls count_down()
    co_await started.async_wait();
    // [latch]
    expect(started.try_wait(), "the latch is open");
}

// [barrier]
// Cells that all look at each other, generation after generation.
asio::awaitable<void> cell(turnstile::barrier& step, std::vector<int>& now, std::vector<int>& next,
                           std::size_t index)
{
    for (int generation = 0; generation < 3; ++generation)
    {
        next[index] = now[index] + now[(index + 1) % now.size()];
        co_await step.async_arrive_and_wait();
    }
}
// [barrier]

void barriers(asio::io_context& context)
{
    std::vector<int> now{1, 0, 0};
    std::vector<int> next(3);
    // [barrier_run]
    turnstile::barrier step{context, 3, [&] { std::swap(now, next); }};
    for (std::size_t index = 0; index < 3; ++index)
        asio::co_spawn(context, cell(step, now, next, index), asio::detached);
    // [barrier_run]
    context.run();
    context.restart();
    expect(now == std::vector<int>{2, 3, 3}, "three generations");
}

}  // namespace

int main()
{
    asio::io_context context;
    run(context, permits(context));

    turnstile::async_semaphore units{context, 2};
    database db;
    for (int i = 0; i < 5; ++i)
        asio::co_spawn(context, limited_query(units, db), asio::detached);
    context.run();
    context.restart();
    expect(db.most == 2, "two at once, and no more");

    cache values{context};
    std::vector<std::string> got;
    auto reader = [&]() -> asio::awaitable<void> { got.push_back(co_await values.get("a")); };
    for (int i = 0; i < 3; ++i)
        asio::co_spawn(context, reader(), asio::detached);
    context.run();
    context.restart();
    expect(got == std::vector<std::string>(3, "value of a") && loads == 1, "one of them loads it");

    events(context);
    run(context, latches(context));
    barriers(context);
    return failures == 0 ? 0 : 1;
}

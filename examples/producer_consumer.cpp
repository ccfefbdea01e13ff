// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Producers put items on a shelf that has few slots, and consumers take them. Two semaphores count free
// slots and items, and a mutex protects the shelf.
//
// The behaviour is in common/producer_consumer.hpp, for every kind of semaphore. Here the shelf is
// local. With --redis, producers and consumers are in several processes, some of which are killed:
// see redis/shared_shelf.hpp.

#include "common/producer_consumer.hpp"
#include "common/dice.hpp"
#include "common/program.hpp"
#include "common/simulation.hpp"
#include "common/tick_clock.hpp"
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
#include "redis/shared_shelf.hpp"
#endif
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>

namespace asio = boost::asio;
namespace shop = examples::shop;

namespace {

struct shop_options : examples::simulation_options
{
    int producers = 3;
    int consumers = 2;
    int slots = 3;
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    examples::sharing sharing{};
#endif
};

/// The items, by number. Each access takes one tick and excludes all others.
class local_shelf
{
public:
    local_shelf(asio::io_context& context, examples::tick_clock& clock, int all_items)
        : mutex_(context)
        , clock_(clock)
        , all_items_(all_items)
    {
    }

    asio::awaitable<bool> async_put()
    {
        auto guard = co_await mutex_.async_lock();
        const int number = ++produced_;
        co_await clock_.async_pause(1);
        items_.push_back(number);
        co_return true;
    }

    asio::awaitable<shop::taken> async_take()
    {
        auto guard = co_await mutex_.async_lock();
        if (consumed_ == all_items_)
            co_return shop::taken::sold_out;
        const int number = items_.front();
        co_await clock_.async_pause(1);
        items_.pop_front();
        ++consumed_;
        in_order_ = in_order_ && number == consumed_;
        co_return consumed_ == all_items_ ? shop::taken::last_item : shop::taken::item;
    }

    /// Whether each item was taken once, and in the order in which the items were put there.
    [[nodiscard]] bool in_order() const noexcept { return in_order_; }

private:
    turnstile::async_mutex mutex_;
    examples::tick_clock& clock_;
    int all_items_;
    std::deque<int> items_;
    int produced_ = 0;
    int consumed_ = 0;
    bool in_order_ = true;
};

int open_shop(const shop_options& options)
{
    const int all_items = options.producers * options.rounds;

    asio::io_context context;
    examples::tick_clock clock{context, std::chrono::milliseconds(options.time_unit)};
    shop::watch watch{options.producers, options.consumers, options.slots};

    turnstile::async_semaphore free_slots{context, options.slots, "free slots"};
    turnstile::async_semaphore items{context, 0, options.slots, "items"};
    local_shelf shelf{context, clock, all_items};

    for (std::size_t who = 0; who != watch.seen().size(); ++who)
    {
        const examples::reporter report{watch, clock, who, options.verbose};
        const examples::dice random{options.seed, who};
        asio::co_spawn(
            context,
            who < static_cast<std::size_t>(options.producers)
                ? shop::produce(options.rounds, random, free_slots, items, shelf, clock, report)
                : shop::consume(random, free_slots, items, shelf, clock, report),
            examples::rethrow);
    }
    bool all_is_well = examples::run_and_show(clock, watch, options);
    if (!shelf.in_order())
    {
        fmt::print("WRONG: items were taken in another order, or twice\n");
        all_is_well = false;
    }
    if (free_slots.available() != options.slots)
    {
        fmt::print("WRONG: {} of {} slots are free in the end\n", free_slots.available(),
                   options.slots);
        all_is_well = false;
    }
    if (all_is_well)
        fmt::print(
            "All {} items were consumed in {} units of time, each once and in order. At most {} "
            "of {} slots were taken at once, and in the end all of them are free.\n",
            all_items, clock.now(), watch.most(), options.slots);
    return all_is_well ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv)
try
{
    shop_options options;

    CLI::App app{"Producers and consumers share a shelf with few slots: two semaphores.",
                 "producer_consumer"};
    app.add_option("--producers", options.producers, "Number of producers")
        ->check(examples::whole_number(1, 100))
        ->capture_default_str();
    app.add_option("--consumers", options.consumers, "Number of consumers")
        ->check(examples::whole_number(1, 100))
        ->capture_default_str();
    app.add_option("--slots", options.slots, "Number of slots of the shelf")
        ->check(examples::whole_number(1, 1000))
        ->capture_default_str();
    options.add_to(app, "Number of items per producer");
#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    options.sharing.add_to(app, "items");
#endif
    CLI11_PARSE(app, argc, argv);

#ifdef TURNSTILE_EXAMPLES_OVER_REDIS
    if (options.sharing.wanted())
        return shop::open_shared_shop(options.sharing, options.producers, options.consumers,
                                      options.slots, options);
#endif
    return open_shop(options);
}
catch (const std::exception& error)
{
    fmt::print(stderr, "producer_consumer: {}\n", error.what());
    return 1;
}

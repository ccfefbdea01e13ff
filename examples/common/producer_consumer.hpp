// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_PRODUCER_CONSUMER_HPP
#define TURNSTILE_EXAMPLES_COMMON_PRODUCER_CONSUMER_HPP

#include "dice.hpp"
#include "timeline.hpp"
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <turnstile/concepts.hpp>
#include <vector>

// Producers put items on a shelf with few slots, and consumers take them. The code works for every kind of
// semaphore, shelf and clock.
//
// One semaphore counts the free slots, the other one the items on the shelf. A producer acquires a slot,
// puts its item there, and forgets the permit, because the slot is no longer free. Then it releases one
// unit of the items. A consumer acquires an item, takes it, forgets the permit, and releases one unit of
// the slots. So units move between the semaphores, and their sum stays the number of slots.
//
// The permit is forgotten *after* the move. If the producer or consumer is cancelled, throws or crashes
// before, the permit releases its unit.

namespace examples::shop {

enum class activity
{
    rests,
    waits,
    makes,
    puts,
    fetches,
    consumes,
    leaves,
};

/// The text that `--verbose` prints for an activity.
inline std::string_view sentence(activity what)
{
    switch (what)
    {
    case activity::rests:
        return "rests";
    case activity::waits:
        return "waits";
    case activity::makes:
        return "has a slot and makes an item";
    case activity::puts:
        return "puts the item on the shelf";
    case activity::fetches:
        return "goes to the shelf for an item";
    case activity::consumes:
        return "consumes an item";
    case activity::leaves:
        return "leaves";
    }
    return "does something strange";
}

/// The result of an attempt to take an item from the shelf.
enum class taken
{
    item,
    /// The last item that is ever produced.
    last_item,
    /// The shelf is empty, but more items will come.
    nothing,
    /// The last item was taken before.
    sold_out,
};

/// The names of the producers, followed by those of the consumers.
inline std::vector<std::string> staff_list(int producers, int consumers)
{
    std::vector<std::string> names;
    for (int i = 1; i <= producers; ++i)
        names.push_back(fmt::format("producer {}", i));
    for (int i = 1; i <= consumers; ++i)
        names.push_back(fmt::format("consumer {}", i));
    return names;
}

/// Produces the given number of items.
///
/// @param shelf its `async_put()` returns an awaitable of whether there was room for the item.
/// @param random decides how long each activity takes.
/// @param report a function `void(activity)`, called at each step.
template <turnstile::awaitable_semaphore Semaphore, class Shelf, class Clock, class Report>
boost::asio::awaitable<void> produce(int items_to_make, dice random, Semaphore& free_slots,
                                     Semaphore& items, Shelf& shelf, Clock& clock, Report report)
{
    for (int made = 0; made != items_to_make;)
    {
        report(activity::rests);
        co_await clock.async_pause(random.roll(1, 3));
        report(activity::waits);
        auto slot = co_await free_slots.async_acquire();
        report(activity::makes);
        co_await clock.async_pause(random.roll(1, 4));
        const bool done = co_await shelf.async_put();
        // The slot is in use now. If there was no room, the semaphore had one unit too many, and
        // this removes it.
        slot.forget();
        if (done)
        {
            report(activity::puts);
            ++made;
            co_await items.async_release();
        }
    }
    report(activity::leaves);
}

/// Consumes items until the last one has been taken.
///
/// @param shelf its `async_take()` returns an awaitable of @ref taken.
template <turnstile::awaitable_semaphore Semaphore, class Shelf, class Clock, class Report>
boost::asio::awaitable<void> consume(dice random, Semaphore& free_slots, Semaphore& items,
                                     Shelf& shelf, Clock& clock, Report report)
{
    for (bool more = true; more;)
    {
        report(activity::waits);
        auto item = co_await items.async_acquire();
        report(activity::fetches);
        co_await clock.async_pause(1);
        const taken what = co_await shelf.async_take();
        more = what == taken::item || what == taken::nothing;
        const bool got_one = what == taken::item || what == taken::last_item;
        if (got_one)
            report(activity::consumes);
        // After the last item, the permit releases its unit, so that the next consumer stops waiting.
        // Without an item, the semaphore had one unit too many.
        if (more)
            item.forget();
        if (got_one)
        {
            co_await free_slots.async_release();
            co_await clock.async_pause(random.roll(1, 5));
        }
    }
    report(activity::leaves);
}

/// Records what each producer and consumer does, and checks it against the contents of the shelf.
class watch
{
public:
    static constexpr std::string_view unit = "items";
    static constexpr std::string_view legend =
        ". rests   - waits for a slot, or for an item   = has a slot, makes an item\n"
        "/ fetches an item   # consumes it";

    watch(int producers, int consumers, int slots)
        : seen_(staff_list(producers, consumers))
        , now_(seen_.size(), activity::rests)
        , made_(static_cast<std::size_t>(producers))
        , slots_(slots)
    {
    }

    [[nodiscard]] const timeline& seen() const noexcept { return seen_; }

    /// The largest number of items that were on the shelf at once.
    [[nodiscard]] int most() const noexcept { return most_; }

    /// Records that a producer or consumer begins an activity.
    void note(std::size_t who, int tick, activity what)
    {
        now_[who] = what;
        switch (what)
        {
        case activity::rests:
            return seen_.note(who, tick, '.');
        case activity::waits:
            return seen_.note_wait(who, tick, '-');
        case activity::makes:
            return seen_.note_turn(who, tick, '=');
        case activity::puts:
            ++made_[who];
            return change_stock(who, tick, 1);
        case activity::fetches:
            return seen_.note(who, tick, '/');
        case activity::consumes:
            change_stock(who, tick, -1);
            return seen_.note_turn(who, tick, '#');
        case activity::leaves:
            return seen_.note(who, tick, ' ');
        }
    }

    /// Describes each mistake in a sentence. The list is empty if all have left, each producer has made
    /// the given number of items, and all items were consumed.
    [[nodiscard]] std::vector<std::string> complaints(int items_of_each) const
    {
        auto result = accidents_;
        for (std::size_t who = 0; who != now_.size(); ++who)
        {
            if (now_[who] != activity::leaves)
                result.push_back(
                    fmt::format("{} in the end {}", seen_.name(who), sentence(now_[who])));
            if (who < made_.size() && made_[who] != items_of_each)
                result.push_back(fmt::format("{} made {} of {} items", seen_.name(who), made_[who],
                                             items_of_each));
        }
        if (stock_ != 0)
            result.push_back(fmt::format("{} items were left on the shelf", stock_));
        return result;
    }

private:
    void change_stock(std::size_t who, int tick, int change)
    {
        stock_ += change;
        most_ = std::max(most_, stock_);
        if (stock_ < 0 || stock_ > slots_)
            accidents_.push_back(fmt::format("at {} {} leaves {} items on the shelf with {} slots",
                                             tick, seen_.name(who), stock_, slots_));
    }

    timeline seen_;
    std::vector<activity> now_;
    /// Items made, by producer.
    std::vector<int> made_;
    int slots_;
    int stock_ = 0;
    int most_ = 0;
    std::vector<std::string> accidents_;
};

}  // namespace examples::shop

#endif

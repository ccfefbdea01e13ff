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

// Producers put items on a shelf with few slots, consumers take them, for every kind of semaphore, of shelf
// and of clock.
//
// There are two semaphores: one counts the slots that are free, the other one the items that lie on the
// shelf. A producer acquires a slot and, when its item lies there, forgets the permit, because the slot
// is not free any more; then it adds a unit to the items. A consumer acquires an item, forgets that permit,
// because the item is gone, and adds a unit to the slots. So units move to and fro, and there are always as
// many as there are slots.
//
// The permit is forgotten *after* the move, not before. Who is cancelled before, throws or dies, leaves
// nothing behind: the permit gives its unit back.

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

/// What `--verbose` says of it.
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

/// How the attempt to take something from the shelf ended.
enum class taken
{
    item,
    /// The last one there will ever be.
    last_item,
    /// The shelf is empty, for now.
    nothing,
    /// The last one was taken before.
    sold_out,
};

/// The names of those who produce, and after them of those who consume.
inline std::vector<std::string> staff_list(int producers, int consumers)
{
    std::vector<std::string> names;
    for (int i = 1; i <= producers; ++i)
        names.push_back(fmt::format("producer {}", i));
    for (int i = 1; i <= consumers; ++i)
        names.push_back(fmt::format("consumer {}", i));
    return names;
}

/// What a producer does until it has made so many items.
///
/// @param shelf  its `async_put()` awaits whether there was room for the item.
/// @param random is rolled for how long everything takes.
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
        // It is not free now. Nor was it if there was no room: then one unit was too many.
        slot.forget();
        if (done)
        {
            report(activity::puts);
            ++made;
            co_await items.async_release(1);
        }
    }
    report(activity::leaves);
}

/// What a consumer does until there is nothing left to come.
///
/// @param shelf its `async_take()` awaits what was @ref taken.
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
        // A permit that is not forgotten gives its unit back. So the last one goes from hand to hand, and
        // nobody waits for what never comes.
        if (more)
            item.forget();
        if (got_one)
        {
            co_await free_slots.async_release(1);
            co_await clock.async_pause(random.roll(1, 5));
        }
    }
    report(activity::leaves);
}

/// Sees from outside what everybody does, and what must be on the shelf then.
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

    /// How many items lay on the shelf at once, at most.
    [[nodiscard]] int most() const noexcept { return most_; }

    /// Somebody begins something.
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

    /// What is wrong, in sentences; nothing if everybody has left, each producer has made so many items,
    /// and all of them were consumed.
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
    /// By each producer.
    std::vector<int> made_;
    int slots_;
    int stock_ = 0;
    int most_ = 0;
    std::vector<std::string> accidents_;
};

}  // namespace examples::shop

#endif

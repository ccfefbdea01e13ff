// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_READERS_WRITERS_HPP
#define TURNSTILE_EXAMPLES_COMMON_READERS_WRITERS_HPP

#include "dice.hpp"
#include "timeline.hpp"
#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/describe/class.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <turnstile/concepts.hpp>
#include <utility>
#include <vector>

// Any number of readers together, or one writer alone, with a monitor. The code works for every kind of
// monitor and clock. (A program would use `turnstile::shared_mutex`. This example shows how a monitor works.)
//
// Neither side starves the other: while a writer waits, new readers wait too. When a writer leaves, the
// readers that have waited meanwhile enter before the next writer.
//
// Each participant that is inside or waits makes a *contribution* to a number in the state. So the number
// drops when a waiter is cancelled and, over Redis, when a process is killed. Each contribution names one
// condition, whose waiters are notified if the destructor or the server ends it. A writer contributes to two
// numbers: waiting writers depend on `inside`, and waiting readers on `writers`. So it does not matter
// which of the two contributions the server undoes first.

namespace examples::library {

/// The state that readers and writers share. It is described, so that another backend can store
/// its members.
struct rw_state
{
    /// Number of readers and writers inside. Writers wait until it is 0.
    int inside = 0;
    /// Number of writers inside. Readers wait until it is 0, and depend on `waiting_writers`, too.
    int writers = 0;
    int waiting_readers = 0;
    int waiting_writers = 0;
    /// Number of writers that have left.
    int writes = 0;
};
BOOST_DESCRIBE_STRUCT(rw_state, (), (inside, writers, waiting_readers, waiting_writers, writes))

enum class role
{
    reader,
    writer,
};

/// The names of the readers, followed by those of the writers.
inline std::vector<std::string> visitor_list(int readers, int writers)
{
    std::vector<std::string> names;
    for (int i = 1; i <= readers; ++i)
        names.push_back(fmt::format("reader {}", i));
    for (int i = 1; i <= writers; ++i)
        names.push_back(fmt::format("writer {}", i));
    return names;
}

/// Admits readers and writers, and counts them.
template <turnstile::awaitable_monitor Monitor>
class reading_room
{
    using contribution_type = typename Monitor::contribution_type;

public:
    /// Proof of being inside. Its destruction, or the crash of its process, ends the stay.
    class stay
    {
        friend class reading_room;

        role as_ = role::reader;
        contribution_type inside_{};
        contribution_type writes_{};
    };

    explicit reading_room(Monitor& monitor)
        : monitor_(monitor)
        , ok_to_read_(monitor.make_condition("ok_to_read"))
        , ok_to_write_(monitor.make_condition("ok_to_write"))
    {
    }

    boost::asio::awaitable<stay> enter(role as)
    {
        stay result;
        result.as_ = as;
        const auto come_in = [&](auto& section) -> boost::asio::awaitable<void>
        {
            if (as == role::reader)
                co_await wait_to_read(section);
            else
                co_await wait_to_write(section);
            result.inside_ = section.contribute(&rw_state::inside, 1, ok_to_write_);
            if (as == role::writer)
                result.writes_ = section.contribute(&rw_state::writers, 1, ok_to_read_);
        };
        co_await monitor_.async_with(come_in);
        co_return std::move(result);
    }

    /// @return Whether the stay lasted until now. If its lease expired, others may have entered meanwhile.
    boost::asio::awaitable<bool> leave(stay& whose)
    {
        const auto go_out = [&](auto& section)
        {
            return whose.as_ == role::reader ? end_reading(section, whose)
                                             : end_writing(section, whose);
        };
        co_return co_await monitor_.async_with(go_out);
    }

private:
    template <class Section>
    boost::asio::awaitable<void> wait_to_read(Section& section)
    {
        const auto may_read = [writes = section->writes](const rw_state& now)
        { return now.writers == 0 && (now.waiting_writers == 0 || now.writes != writes); };

        // A leaving writer notifies the waiting readers; the last of those notifies the
        // next writer.
        auto waiting = section.contribute(&rw_state::waiting_readers, 1, ok_to_write_);
        co_await section.async_wait(ok_to_read_, may_read);
        section.withdraw(waiting);
    }

    template <class Section>
    boost::asio::awaitable<void> wait_to_write(Section& section)
    {
        const auto may_write = [](const rw_state& now) { return now.inside == 0; };

        // While this contribution lasts, new readers wait.
        auto waiting = section.contribute(&rw_state::waiting_writers, 1, ok_to_read_);
        co_await section.async_wait(ok_to_write_, may_write);
        section.withdraw(waiting);
    }

    template <class Section>
    bool end_reading(Section& section, stay& whose)
    {
        const bool was_inside = section.withdraw(whose.inside_);
        if (section->inside == 0)
            section.notify_one(ok_to_write_);
        return was_inside;
    }

    template <class Section>
    bool end_writing(Section& section, stay& whose)
    {
        const bool was_inside = section.withdraw(whose.inside_);
        const bool was_alone = section.withdraw(whose.writes_);
        ++section->writes;
        if (section->waiting_readers != 0)
            section.notify_all(ok_to_read_);
        else
            section.notify_one(ok_to_write_);
        return was_inside && was_alone;
    }

    Monitor& monitor_;
    typename Monitor::condition_type ok_to_read_;
    typename Monitor::condition_type ok_to_write_;
};

enum class activity
{
    is_away,
    waits,
    reads,
    writes,
    leaves,
};

/// The text that `--verbose` prints for an activity.
inline std::string_view sentence(activity what)
{
    switch (what)
    {
    case activity::is_away:
        return "is away";
    case activity::waits:
        return "wants to come in";
    case activity::reads:
        return "reads";
    case activity::writes:
        return "writes";
    case activity::leaves:
        return "goes home";
    }
    return "does something strange";
}

/// One turn: enters, reads or writes, and leaves.
///
/// @param report a function `void(activity)`, called at each step. It reports the end
///               of reading or writing before leaving.
/// @param use returns an awaitable that runs inside.
/// @return The result of reading_room::leave().
template <turnstile::awaitable_monitor Monitor, class Report, class Use>
boost::asio::awaitable<bool> take_turn(role as, reading_room<Monitor>& room, Report& report,
                                       Use& use)
{
    report(activity::waits);
    auto stay = co_await room.enter(as);
    report(as == role::reader ? activity::reads : activity::writes);
    co_await use();
    report(activity::is_away);
    co_return co_await room.leave(stay);
}

/// The day of a reader or writer.
///
/// @param random decides how long each activity takes.
/// @param report see take_turn().
template <turnstile::awaitable_monitor Monitor, class Clock, class Report>
boost::asio::awaitable<void> visit(role as, int rounds, dice random, reading_room<Monitor>& room,
                                   Clock& clock, Report report)
{
    auto use = [&] { return clock.async_pause(random.roll(1, 3)); };
    for (int round = 0; round != rounds; ++round)
    {
        report(activity::is_away);
        co_await clock.async_pause(random.roll(3, 8));
        co_await take_turn(as, room, report, use);
    }
    report(activity::leaves);
}

/// Records what each participant does, and checks that a writer is alone.
class watch
{
public:
    static constexpr std::string_view unit = "turns";
    static constexpr std::string_view promise = "each writer was alone";
    static constexpr std::string_view legend = ". is away   - waits   r reads   W writes";

    explicit watch(const std::vector<std::string>& names)
        : seen_(names)
        , now_(names.size(), activity::is_away)
    {
    }

    [[nodiscard]] const timeline& seen() const noexcept { return seen_; }

    /// The largest number of readers inside at once.
    [[nodiscard]] std::ptrdiff_t most_readers() const noexcept { return most_readers_; }

    /// Records that a participant begins an activity.
    void note(std::size_t who, int tick, activity what)
    {
        now_[who] = what;
        switch (what)
        {
        case activity::is_away:
            return seen_.note(who, tick, '.');
        case activity::waits:
            return seen_.note_wait(who, tick, '-');
        case activity::reads:
            check(who, tick);
            return seen_.note_turn(who, tick, 'r');
        case activity::writes:
            check(who, tick);
            return seen_.note_turn(who, tick, 'W');
        case activity::leaves:
            return seen_.note(who, tick, ' ');
        }
    }

    /// Describes each mistake in a sentence. The list is empty if all have left after the given
    /// number of turns.
    [[nodiscard]] std::vector<std::string> complaints(int rounds) const
    {
        auto result = collisions_;
        for (std::size_t who = 0; who != now_.size(); ++who)
        {
            if (now_[who] != activity::leaves || seen_.turns(who) != rounds)
                result.push_back(fmt::format("{} had {} of {} turns, and in the end {}",
                                             seen_.name(who), seen_.turns(who), rounds,
                                             sentence(now_[who])));
        }
        return result;
    }

private:
    void check(std::size_t who, int tick)
    {
        const auto readers = std::count(now_.begin(), now_.end(), activity::reads);
        const auto writers = std::count(now_.begin(), now_.end(), activity::writes);
        most_readers_ = std::max(most_readers_, readers);
        if (writers > 1 || (writers == 1 && readers != 0))
            collisions_.push_back(
                fmt::format("at {} {} comes in and there are {} readers and {} writers", tick,
                            seen_.name(who), readers, writers));
    }

    timeline seen_;
    std::vector<activity> now_;
    std::vector<std::string> collisions_;
    std::ptrdiff_t most_readers_ = 0;
};

}  // namespace examples::library

#endif

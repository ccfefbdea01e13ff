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
#include <utility>
#include <vector>

// Any number of readers together or one writer alone, by a monitor, for every kind of monitor and of
// clock. (In a program, `turnstile::shared_mutex` does that. Here it is written by hand, to show a
// monitor at work.)
//
// Neither side keeps the other out: a writer who waits lets no newcomer read, and when a writer leaves,
// the readers who waited meanwhile come before the next writer.
//
// Whoever is inside, or waits, is *contributed* to the state, and so nobody is counted who is not there any
// more: not one who is cancelled while waiting, and over Redis not one who was killed. Each number is watched
// by those of one condition, and notifies them when something is taken out of it. That is why `inside` and
// `writers` are two numbers, of which a writer contributes to both: the server may undo one before the other,
// and whoever is notified by the one must not have to look at the other.

namespace examples::library {

/// What readers and writers share. It is described, so that another backend can store its members.
struct rw_state
{
    /// How many are inside: readers, or a writer. Writers watch it.
    int inside = 0;
    /// How many of them write. Readers watch it, and how many writers wait.
    int writers = 0;
    int waiting_readers = 0;
    int waiting_writers = 0;
    /// How many writers have left.
    int writes = 0;
};
BOOST_DESCRIBE_STRUCT(rw_state, (), (inside, writers, waiting_readers, waiting_writers, writes))

enum class role
{
    reader,
    writer,
};

/// The names of the readers, and after them of the writers.
inline std::vector<std::string> visitor_list(int readers, int writers)
{
    std::vector<std::string> names;
    for (int i = 1; i <= readers; ++i)
        names.push_back(fmt::format("reader {}", i));
    for (int i = 1; i <= writers; ++i)
        names.push_back(fmt::format("writer {}", i));
    return names;
}

/// The door to what is read and written.
template <class Monitor>
class reading_room
{
    using contribution_type = typename Monitor::contribution_type;

public:
    /// What makes somebody be inside. Who destroys it, or dies, is inside no more.
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

    /// @return Whether its owner was inside until now. If not, because that is leased and the lease has ended, others
    ///         may have come in meanwhile.
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

        // A writer who leaves leaves it to the readers who wait to notify the next one.
        auto waiting = section.contribute(&rw_state::waiting_readers, 1, ok_to_write_);
        co_await section.async_wait(ok_to_read_, may_read);
        section.withdraw(waiting);
    }

    template <class Section>
    boost::asio::awaitable<void> wait_to_write(Section& section)
    {
        const auto may_write = [](const rw_state& now) { return now.inside == 0; };

        // Newcomers do not read meanwhile.
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

/// What `--verbose` says of it.
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

/// One turn: comes in, does something, and leaves.
///
/// @param report a function `void(activity)`, called at each step. The end of reading or writing is
///               reported before the room is left.
/// @param use    a function that returns what can be awaited: what is done inside.
/// @return What reading_room::leave() does.
template <class Monitor, class Report, class Use>
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
/// @param random is rolled for how long everything takes.
/// @param report is called as by take_turn().
template <class Monitor, class Clock, class Report>
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

/// Sees from outside what everybody does, and whether a writer is not alone.
class watch
{
public:
    static constexpr std::string_view unit = "turns";
    static constexpr std::string_view promise = "who wrote was alone";
    static constexpr std::string_view legend = ". is away   - waits   r reads   W writes";

    explicit watch(const std::vector<std::string>& names)
        : seen_(names)
        , now_(names.size(), activity::is_away)
    {
    }

    [[nodiscard]] const timeline& seen() const noexcept { return seen_; }

    /// The most readers that there were at once.
    [[nodiscard]] std::ptrdiff_t most_readers() const noexcept { return most_readers_; }

    /// Somebody begins something.
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

    /// What is wrong, in sentences; nothing if everybody has gone home after so many turns.
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

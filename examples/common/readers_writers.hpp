// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_READERS_WRITERS_HPP
#define TURNSTILE_EXAMPLES_COMMON_READERS_WRITERS_HPP

#include "dice.hpp"
#include "timeline.hpp"
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/describe/class.hpp>
#include <boost/system/system_error.hpp>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

// Any number of readers together or one writer alone, by a monitor, for every kind of monitor and of
// clock. (In a program, `turnstile::shared_mutex` does that. Here it is written by hand, to show a
// monitor at work.)
//
// Neither side keeps the other out: a writer who waits lets no newcomer read, and when a writer leaves,
// the readers who waited meanwhile come before the next writer.

namespace examples::library {

/// What readers and writers share. It is described, so that another backend can store its members.
struct rw_state
{
    int readers = 0;
    int writers = 0;
    int waiting_readers = 0;
    int waiting_writers = 0;
    /// How many writers have finished.
    int writes = 0;
};
BOOST_DESCRIBE_STRUCT(rw_state, (), (readers, writers, waiting_readers, waiting_writers, writes))

enum class role
{
    reader,
    writer,
};

/// The door to what is read and written.
template <class Monitor>
class reading_room
{
public:
    explicit reading_room(Monitor& monitor)
        : monitor_(monitor)
        , ok_to_read_(monitor.make_condition("ok_to_read"))
        , ok_to_write_(monitor.make_condition("ok_to_write"))
    {
    }

    boost::asio::awaitable<void> enter(role as)
    {
        return as == role::reader ? enter_to_read() : enter_to_write();
    }

    boost::asio::awaitable<void> leave(role as)
    {
        return as == role::reader ? leave_after_reading() : leave_after_writing();
    }

private:
    boost::asio::awaitable<void> enter_to_read()
    {
        co_await monitor_.async_with(
            [&](auto& section) -> boost::asio::awaitable<void>
            {
                const auto may_read = [writes = section->writes](const rw_state& s)
                { return s.writers == 0 && (s.waiting_writers == 0 || s.writes != writes); };
                co_await wait(section, &rw_state::waiting_readers, ok_to_read_, may_read);
                ++section->readers;
            });
    }

    boost::asio::awaitable<void> leave_after_reading()
    {
        co_await monitor_.async_with(
            [&](auto& section)
            {
                if (--section->readers == 0)
                    section.notify_one(ok_to_write_);
            });
    }

    boost::asio::awaitable<void> enter_to_write()
    {
        co_await monitor_.async_with(
            [&](auto& section) -> boost::asio::awaitable<void>
            {
                const auto may_write = [](const rw_state& s)
                { return s.readers == 0 && s.writers == 0; };
                co_await wait(section, &rw_state::waiting_writers, ok_to_write_, may_write);
                ++section->writers;
            });
    }

    boost::asio::awaitable<void> leave_after_writing()
    {
        co_await monitor_.async_with(
            [&](auto& section)
            {
                --section->writers;
                ++section->writes;
                if (section->waiting_readers != 0)
                    section.notify_all(ok_to_read_);
                else
                    section.notify_one(ok_to_write_);
            });
    }

    /// Waits, and is counted meanwhile.
    template <class Section, class Predicate>
    boost::asio::awaitable<void> wait(Section& section, int rw_state::* waiting,
                                      typename Monitor::condition_type& condition,
                                      Predicate predicate)
    {
        ++(*section.*waiting);
        const auto [error] = co_await section.async_wait(
            condition, predicate, boost::asio::as_tuple(boost::asio::deferred));
        --(*section.*waiting);
        if (!error)
            co_return;

        // Cancelled, and owning the lock again. Who was to come after this one may come now.
        section.notify_all(ok_to_read_);
        section.notify_one(ok_to_write_);
        throw boost::system::system_error(error);
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

/// The day of a reader or writer.
///
/// @param random is rolled for how long everything takes.
/// @param report a function `void(activity)`, called at each step. The end of reading or writing is
///               reported before the room is left.
template <class Monitor, class Clock, class Report>
boost::asio::awaitable<void> visit(role as, int rounds, dice random, reading_room<Monitor>& room,
                                   Clock& clock, Report report)
{
    for (int round = 0; round != rounds; ++round)
    {
        report(activity::is_away);
        co_await clock.async_pause(random.roll(3, 8));

        report(activity::waits);
        co_await room.enter(as);
        report(as == role::reader ? activity::reads : activity::writes);
        co_await clock.async_pause(random.roll(1, 3));
        report(activity::is_away);
        co_await room.leave(as);
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

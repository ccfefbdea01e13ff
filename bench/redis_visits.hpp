// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_REDIS_VISITS_HPP
#define TURNSTILE_BENCH_REDIS_VISITS_HPP

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <boost/describe/class.hpp>
#include <chrono>
#include <cstddef>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/transaction.hpp>
#include <vector>

#include "harness.hpp"
#include "redis_constructs.hpp"
#include "redis_world.hpp"

// Readers and writers with a monitor of Turnstile, compared with those of redis_constructs.hpp.
// See docs/readers_writers.md.

namespace bench {

/// Records the visitors inside, and checks that a writer is alone.
class room_watch
{
public:
    void enter(role as)
    {
        ++number(as);
        if (writers_ > 1 || (writers_ == 1 && readers_ != 0))
            throw std::runtime_error("a writer was not alone");
    }

    void leave(role as) { --number(as); }

private:
    int& number(role as) { return as == role::reader ? readers_ : writers_; }

    int readers_ = 0;
    int writers_ = 0;
};

// --- Turnstile's ways ---------------------------------------------------------------------------

/// The shared variables.
struct reading_room
{
    int readers = 0;
    int writers = 0;
};

BOOST_DESCRIBE_STRUCT(reading_room, (), (readers, writers))

/// A process with a monitor of Turnstile.
class monitor_process
{
public:
    static constexpr std::array<const char*, 1> commands{"evalsha"};

    monitor_process(world& w, const route& to, std::string_view monitor_name)
        : session_(w.context, world::settings_of(to.url()))
        , monitor_(session_, monitor_name)
    {
    }

    asio::awaitable<void> open() { co_await session_.async_ready(); }

protected:
    redis::session session_;
    redis::monitor<reading_room> monitor_;
    redis::monitor<reading_room>::condition_type ok_to_read_ =
        monitor_.make_condition("ok_to_read");
    redis::monitor<reading_room>::condition_type ok_to_write_ =
        monitor_.make_condition("ok_to_write");
};

/// Uses critical sections.
class section_process : public monitor_process
{
public:
    static constexpr std::string_view name = "sections";

    section_process(world& w, const route& to, int /*number*/)
        : monitor_process(w, to, "sections")
    {
    }

    asio::awaitable<void> enter(role as)
    {
        return as == role::reader ? enter_to_read() : enter_to_write();
    }

    asio::awaitable<void> leave(role as)
    {
        return as == role::reader ? leave_after_reading() : leave_after_writing();
    }

private:
    asio::awaitable<void> enter_to_read()
    {
        auto body = [this](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(ok_to_read_,
                                        [](const reading_room& r) { return r.writers == 0; });
            ++section->readers;
        };
        co_await monitor_.async_with(body);
    }

    asio::awaitable<void> leave_after_reading()
    {
        auto body = [this](auto& section)
        {
            if (--section->readers == 0)
                section.notify_one(ok_to_write_);
        };
        co_await monitor_.async_with(body);
    }

    asio::awaitable<void> enter_to_write()
    {
        auto body = [this](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(ok_to_write_, [](const reading_room& r)
                                        { return r.readers == 0 && r.writers == 0; });
            ++section->writers;
        };
        co_await monitor_.async_with(body);
    }

    asio::awaitable<void> leave_after_writing()
    {
        auto body = [this](auto& section)
        {
            --section->writers;
            section.notify_one(ok_to_write_);
            section.notify_all(ok_to_read_);
        };
        co_await monitor_.async_with(body);
    }
};

/// Uses transactions.
class transaction_process : public monitor_process
{
public:
    static constexpr std::string_view name = "transactions";

    transaction_process(world& w, const route& to, int /*number*/)
        : monitor_process(w, to, "transactions")
    {
    }

    asio::awaitable<void> enter(role as)
    {
        const turnstile::transaction<reading_room> nothing;
        const auto to_read = nothing.require(&reading_room::writers, std::equal_to(), 0)
                                 .wait_on(ok_to_read_)
                                 .add(&reading_room::readers, 1);
        const auto to_write = nothing.require(&reading_room::readers, std::equal_to(), 0)
                                  .require(&reading_room::writers, std::equal_to(), 0)
                                  .wait_on(ok_to_write_)
                                  .add(&reading_room::writers, 1);
        if (as == role::reader)
            co_await monitor_.async_transact(to_read);
        else
            co_await monitor_.async_transact(to_write);
    }

    /// A transaction cannot notify only if a sum is zero. So each leaving reader notifies a writer, which
    /// checks its predicate.
    asio::awaitable<void> leave(role as)
    {
        const turnstile::transaction<reading_room> nothing;
        const auto after_reading = nothing.add(&reading_room::readers, -1).notify_one(ok_to_write_);
        const auto after_writing = nothing.add(&reading_room::writers, -1)
                                       .notify_one(ok_to_write_)
                                       .notify_all(ok_to_read_);
        if (as == role::reader)
            co_await monitor_.async_transact(after_reading);
        else
            co_await monitor_.async_transact(after_writing);
    }
};

// --- all of them --------------------------------------------------------------------------------

/// The visitors of a case, the number of visits of each, and the bars: acceptable shares of the
/// article's time.
struct visitors
{
    std::string_view name;
    int readers;
    int writers;
    int visits;
    double with_sections;
    double with_transactions;

    [[nodiscard]] int all() const { return readers + writers; }
};

/// Processes of one kind.
template <class Process>
class crowd
{
public:
    /// @param arguments further constructor arguments of each process.
    template <class... Arguments>
    crowd(world& w, const route& to, int count, const Arguments&... arguments)
        : w_(&w)
        , route_(to)
    {
        for (int i = 0; i != count; ++i)
            processes_.push_back(std::make_unique<Process>(w, to, i, arguments...));
        for (const auto& each : processes_)
            w.run([&] { return each->open(); });
    }

    [[nodiscard]] std::string named(const visitors& who) const
    {
        return w_->named(fmt::format("visit, {}, {}{}", who.name, Process::name, route_.name));
    }

    [[nodiscard]] std::string counted(const visitors& who) const
    {
        return w_->named(fmt::format("commands of a visit, {}, {}", who.name, Process::name));
    }

    /// Nanoseconds per visit.
    double time(const visitors& who)
    {
        room_watch room;
        const auto visit = [&](int i)
        {
            return visit_often(*processes_[static_cast<std::size_t>(i)],
                               i < who.readers ? role::reader : role::writer, who.visits, room);
        };
        return w_->run_all(who.all(), visit) / (who.all() * who.visits);
    }

    /// Commands per visit, as the server counts them.
    double count(const visitors& who)
    {
        const server_counters before(w_->server);
        time(who);
        const server_counters after(w_->server);
        double result = 0;
        for (const char* each : Process::commands)
            result += after.calls(each) - before.calls(each);
        return result / (who.all() * who.visits);
    }

private:
    static asio::awaitable<void> visit_often(Process& who, role as, int visits, room_watch& room)
    {
        for (int i = 0; i != visits; ++i)
        {
            co_await who.enter(as);
            room.enter(as);
            // Lets other coroutines run, so that the watch sees overlapping visits.
            co_await asio::post(asio::deferred);
            room.leave(as);
            co_await who.leave(as);
        }
    }

    world* w_;
    route route_;
    std::vector<std::unique_ptr<Process>> processes_;
};

/// Compares the article's processes with Turnstile's.
class visiting_hours
{
public:
    visiting_hours(world& w, report& report, const construct_scripts& scripts, const route& to)
        : report_(&report)
        , article_(w, to, most, scripts)
        , sections_(w, to, most)
        , transactions_(w, to, most)
    {
    }

    void compare(const visitors& who, unsigned repetitions)
    {
        const std::string baseline = article_.named(who);
        comparer{*report_,
                 repetitions}({{baseline, [&] { return article_.time(who); }},
                               {sections_.named(who), [&] { return sections_.time(who); }},
                               {transactions_.named(who), [&] { return transactions_.time(who); }}},
                              {{sections_.named(who), baseline, who.with_sections},
                               {transactions_.named(who), baseline, who.with_transactions},
                               {baseline}});
    }

    void count(const visitors& who)
    {
        const auto add = [&](auto& processes, double bar)
        {
            report_->add({processes.counted(who),
                          processes.count(who),
                          "",
                          article_.counted(who),
                          {},
                          who.all() == 1 ? std::optional(bar) : std::nullopt});
        };
        add(sections_, 4.0);
        add(transactions_, 2.0);
        report_->add({article_.counted(who), article_.count(who), ""});
    }

private:
    /// The largest number of processes in a case.
    static constexpr int most = 10;

    report* report_;
    crowd<construct_process> article_;
    crowd<section_process> sections_;
    crowd<transaction_process> transactions_;
};

/// Measures entering and leaving, alone and under contention, near the server and far from it.
inline void readers_and_writers(world& w, report& report, unsigned repetitions)
{
    const construct_scripts scripts(w);
    {
        // Here the processor time dominates: the bars allow half of the article's time.
        constexpr std::array<visitors, 3> cases{{{"one reader", 1, 0, 40, 0.5, 0.5},
                                                 {"one writer", 0, 1, 40, 0.5, 0.5},
                                                 {"8 readers and 2 writers", 8, 2, 5, 0.5, 0.5}}};
        visiting_hours here(w, report, scripts, {"", w.server.port()});
        for (const visitors& who : cases)
            here.compare(who, repetitions);
        for (const visitors& who : cases)
            here.count(who);
    }
    // Here the round trips dominate: the bars follow from the numbers of commands, with a tenth
    // more for the processors.
    constexpr std::array<visitors, 3> cases{{{"one reader", 1, 0, 4, 1.1 * 4 / 8, 1.1 * 2 / 8},
                                             {"one writer", 0, 1, 4, 1.1 * 4 / 10, 1.1 * 2 / 10},
                                             {"8 readers and 2 writers", 8, 2, 2, 0.5, 0.5}}};
    turnstile::test::tcp_proxy link(w.server.port());
    link.delay(std::chrono::milliseconds(1));
    visiting_hours away(w, report, scripts, {", 2 ms away", link.port()});
    for (const visitors& who : cases)
        away.compare(who, repetitions);
}

}  // namespace bench

#endif

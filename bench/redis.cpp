// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Compares a lock over Redis with the same commands without a lock, and with other locks.
//
// Client and server run on one machine, once on one processor and once on one processor each. The client
// has one thread and one context. The wall clock counts, since most of the time passes in the server and
// on the way. Comparisons that need several processes use the programs of redis_peers.hpp.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <malloc.h>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <turnstile/redis/async_mutex.hpp>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "redis_long_commands.hpp"
#include "redis_peers.hpp"
#include "redis_visits.hpp"
#include "redis_world.hpp"

namespace bench {

namespace {

using namespace std::chrono_literals;
using asio::experimental::awaitable_operators::operator&&;  // NOLINT(misc-unused-using-decls)

struct options : common_options
{
    unsigned repetitions = 21;
    /// Number and length of the peers' turns.
    unsigned peer_repetitions = 3;
    double peer_seconds = 2;
    std::vector<peer> peers;
};

asio::awaitable<void> lock_and_unlock(redis::async_mutex& mutex, int count)
{
    for (int i = 0; i != count; ++i)
    {
        auto guard = co_await mutex.async_lock();
        co_await guard.async_unlock();
    }
}

/// A script with the smallest writes that a lock could need.
constexpr std::string_view minimal_script =
    "#!lua\nredis.call('HSET', KEYS[1], 'a', ARGV[1]) redis.call('PEXPIRE', KEYS[1], 60000)";
constexpr std::string_view empty_script = "#!lua\nreturn 1";
constexpr std::string_view publishing_script =
    "#!lua\nredis.call('PUBLISH', 'bench:hand-over', ARGV[1])";

/// EVALSHA of a script, which this call loads into the server.
raw_command raw_script(world& w, std::string_view text, std::vector<std::string> arguments)
{
    arguments.insert(arguments.begin(), {"EVALSHA", w.loaded(text)});
    return {w.bare, std::move(arguments)};
}

// --- one client ---------------------------------------------------------------------------------

void uncontended(world& w, report& report, unsigned repetitions)
{
    constexpr int pairs = 200;
    redis::async_mutex mutex{w.session, "uncontended"};
    raw_lock raw{w.bare, "raw"};
    raw_command ping{w.bare, {"PING"}};
    raw_command empty = raw_script(w, empty_script, {"0"});

    const auto locked = [&] { return lock_and_unlock(mutex, pairs); };
    const auto raw_pairs = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i != pairs; ++i)
            co_await raw.pair();
    };
    const auto twice = [&](raw_command& command) -> asio::awaitable<void>
    {
        for (int i = 0; i != 2 * pairs; ++i)
            co_await command.send();
    };
    const auto pings = [&] { return twice(ping); };
    const auto nothings = [&] { return twice(empty); };

    const auto name = [&](std::string_view what, std::string_view how)
    { return w.named(how.empty() ? std::string(what) : fmt::format("{}, {}", what, how)); };
    const auto compare = [&](std::string_view how, bool is_time, const auto& measure)
    {
        const std::string section = name("uncontended lock and unlock", how);
        const std::string scripts = name("two raw EVALSHA of the same scripts", how);
        const std::string sendings = name("two PING", how);
        const std::string floor = name("two EVALSHA of an empty script", how);
        // On one processor, the server's work adds to the round trip, and PING causes hardly any.
        const std::optional<double> ping_bar =
            is_time ? std::optional(w.server_is_apart() ? 1.35 : 1.6) : std::nullopt;
        comparer{report,
                 repetitions}({{section, [&] { return measure(locked); }},
                               {scripts, [&] { return measure(raw_pairs); }},
                               {sendings, [&] { return measure(pings); }},
                               {floor, [&] { return measure(nothings); }}},
                              {{section, scripts, is_time ? std::optional(1 / 0.9) : std::nullopt},
                               {section, sendings, ping_bar},
                               {scripts},
                               {sendings},
                               {floor}});
    };
    compare("", true, [&](const auto& body) { return w.run(body) / pairs; });
    compare("client's processor", false,
            [&](const auto& body)
            {
                const double begin = thread_time();
                w.run(body);
                return (thread_time() - begin) / pairs;
            });
    compare("server's processor", false,
            [&](const auto& body)
            {
                const double begin = server_counters(w.server).processor_time();
                w.run(body);
                return (server_counters(w.server).processor_time() - begin) / pairs;
            });

    // With session_thread::own, each direction crosses to another thread.
    redis::session apart{w.context, world::settings_of(w.server), redis::session_thread::own};
    redis::async_mutex elsewhere{apart, "uncontended"};
    const std::string own_thread = w.named("uncontended lock and unlock, own thread");
    const std::string shared_thread = w.named("uncontended lock and unlock, shared thread");
    comparer{report, repetitions}(
        {{own_thread,
          [&] { return w.run([&] { return lock_and_unlock(elsewhere, pairs); }) / pairs; }},
         {shared_thread, [&] { return w.run(locked) / pairs; }}},
        {{own_thread, shared_thread}});

    const server_counters before(w.server);
    w.run(locked);
    const server_counters after(w.server);
    report.add({w.named("commands for each uncontended section"),
                (after.calls("evalsha") - before.calls("evalsha")) / pairs,
                "",
                {},
                {},
                2.0});
}

/// Execution times of the scripts, as the server reports them.
void scripts(world& w, report& report, unsigned repetitions)
{
    constexpr int count = 200;
    std::vector<std::unique_ptr<redis::async_mutex>> mutexes;
    for (int i = 0; i != count; ++i)
        mutexes.push_back(
            std::make_unique<redis::async_mutex>(w.session, fmt::format("script {}", i)));
    raw_command minimal = raw_script(w, minimal_script, {"1", "minimal", "1"});
    std::vector<redis::async_mutex::guard_type> guards;
    const auto acquire = [&]() -> asio::awaitable<void>
    {
        for (const auto& each : mutexes)
            guards.push_back(co_await each->async_lock());
    };
    const auto release = [&]() -> asio::awaitable<void>
    {
        for (auto& each : guards)
            co_await each.async_unlock();
        guards.clear();
    };
    const auto write = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i != count; ++i)
            co_await minimal.send();
    };
    // In nanoseconds, the unit of all values of a comparer.
    const auto cost = [&](const auto& body)
    {
        const server_counters before(w.server);
        w.run(body);
        const server_counters after(w.server);
        return 1000 * (after.microseconds("evalsha") - before.microseconds("evalsha")) / count;
    };
    const std::string acquiring = w.named("script: acquire");
    const std::string releasing = w.named("script: release");
    const std::string floor = w.named("script: HSET and PEXPIRE");
    comparer{report, repetitions}({{acquiring,
                                    [&]
                                    {
                                        const double result = cost(acquire);
                                        w.run(release);
                                        return result;
                                    }},
                                   {releasing,
                                    [&]
                                    {
                                        w.run(acquire);
                                        return cost(release);
                                    }},
                                   {floor, [&] { return cost(write); }}},
                                  {{acquiring, floor, 2.8}, {releasing, floor, 2.8}, {floor}});
}

void pipelined(world& w, report& report, unsigned repetitions)
{
    constexpr int lanes = 256;
    constexpr int pairs = 8;
    std::vector<std::unique_ptr<redis::async_mutex>> mutexes;
    std::vector<std::unique_ptr<raw_lock>> raws;
    for (int i = 0; i != lanes; ++i)
    {
        mutexes.push_back(
            std::make_unique<redis::async_mutex>(w.session, fmt::format("lane {}", i)));
        raws.push_back(std::make_unique<raw_lock>(w.bare, fmt::format("raw lane {}", i)));
    }
    const auto lane = [&](int i)
    { return lock_and_unlock(*mutexes[static_cast<std::size_t>(i)], pairs); };
    const auto raw_lane = [&](int i) -> asio::awaitable<void>
    {
        for (int k = 0; k != pairs; ++k)
            co_await raws[static_cast<std::size_t>(i)]->pair();
    };
    const std::string locked = w.named("256 locks at once, a section");
    const std::string raw = w.named("256 raw pairs of EVALSHA at once, a pair");
    comparer{report,
             repetitions}({{locked, [&] { return w.run_all(lanes, lane) / (lanes * pairs); }},
                           {raw, [&] { return w.run_all(lanes, raw_lane) / (lanes * pairs); }}},
                          {{locked, raw, 1 / 0.8}, {raw}});
}

// --- two clients --------------------------------------------------------------------------------

/// Hands a lock over from one session to another, or within a session.
class relay
{
public:
    relay(world& w, std::string_view name, const redis::mutex_options& options = {})
        : relay(w, w.other, name, options)
    {
    }

    relay(world& w, redis::session& to, std::string_view name, const redis::mutex_options& options)
        : w_(&w)
        , to_(&to)
        , first_(w.session, name, options)
        , second_(to, name, options)
    {
    }

    /// One hand-over. @p before may enqueue another waiter ahead of the measured one.
    template <class Before>
    asio::awaitable<void> hand(Before& before)
    {
        const std::uint64_t waited = waits();
        guard_ = co_await first_.async_lock();
        co_await before();
        auto both = wait() && release_waiters();
        co_await std::move(both);
        if (waits() == waited)
            throw std::runtime_error("the waiter did not wait");
        samples_.push_back(got_at_ - released_at_);
    }

    asio::awaitable<void> hand()
    {
        const auto nobody = []() -> asio::awaitable<void> { co_return; };
        co_await hand(nobody);
    }

    [[nodiscard]] const std::vector<double>& samples() const { return samples_; }

private:
    /// Increases with each grant that was not immediate, and with each nudge.
    [[nodiscard]] std::uint64_t waits() const
    {
        const redis::session_metrics m = to_->metrics();
        return m.granted_by_message + m.nudges + m.handed_over;
    }

    asio::awaitable<void> wait()
    {
        auto guard = co_await second_.async_lock();
        got_at_ = real_time();
        co_await guard.async_unlock();
    }

    asio::awaitable<void> release_waiters()
    {
        // The ping's reply confirms that all earlier requests are enqueued.
        co_await asio::post(w_->context, asio::deferred);
        co_await to_->async_ping();
        released_at_ = real_time();
        co_await guard_.async_unlock();
    }

    world* w_;
    redis::session* to_;
    redis::async_mutex first_;
    redis::async_mutex second_;
    redis::async_mutex::guard_type guard_;
    std::vector<double> samples_;
    double released_at_ = 0;
    double got_at_ = 0;
};

/// Sends a command that publishes, and waits for the message on the other connection.
class hop
{
public:
    hop(world& w, raw_command command)
        : w_(&w)
        , command_(std::move(command))
    {
    }

    asio::awaitable<void> once()
    {
        auto both = receive() && send();
        co_await std::move(both);
        samples_.push_back(got_at_ - sent_at_);
    }

    [[nodiscard]] const std::vector<double>& samples() const { return samples_; }

private:
    asio::awaitable<void> receive()
    {
        co_await w_->listener.get().async_receive2(asio::deferred);
        got_at_ = real_time();
    }

    asio::awaitable<void> send()
    {
        sent_at_ = real_time();
        co_await command_.send();
    }

    world* w_;
    raw_command command_;
    std::vector<double> samples_;
    double sent_at_ = 0;
    double got_at_ = 0;
};

/// Times from a release to the next holder's first step, and from a publishing script to
/// its message.
void hand_over(world& w, report& report, unsigned repetitions)
{
    constexpr int rounds = 100;
    relay mutex{w, "handed over"};
    relay inside{w, w.session, "handed over inside", redis::mutex_options().cohort(1)};
    relay past_dead{w, "handed over past a disconnected waiter"};
    raw_lock dead{w.bare, "handed over past a disconnected waiter"};
    hop script{w, raw_script(w, publishing_script, {"0", "x"})};
    hop publish{w, {w.bare, world::words("PUBLISH", "bench:hand-over", "x")}};

    boost::redis::generic_flat_response messages;
    w.listener.get().set_receive_response(messages);
    const auto subscribe = [&]() -> asio::awaitable<void>
    {
        boost::redis::request request;
        request.push("SUBSCRIBE", "bench:hand-over");
        co_await w.listener.get().async_exec(request, boost::redis::ignore, asio::deferred);
        co_await w.listener.get().async_receive2(asio::deferred);
    };
    w.run(subscribe);

    const auto in_turns = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i != rounds; ++i)
        {
            co_await mutex.hand();
            co_await inside.hand();
            co_await script.once();
            co_await publish.once();
            messages.value().clear();
        }
    };
    std::uint64_t corpses = 0;
    const auto queue_dead = [&]() -> asio::awaitable<void>
    { co_await w.bare.send(dead.acquire(raw_lock::id(++corpses))); };
    const auto over_corpses = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i != rounds; ++i)
            co_await past_dead.hand(queue_dead);
    };
    double commands = 0;
    for (unsigned i = 0; i != repetitions; ++i)
    {
        w.run(in_turns);
        const server_counters before(w.server);
        w.run(over_corpses);
        commands += server_counters(w.server).calls("evalsha") - before.calls("evalsha");
    }

    const auto add = [&](std::string_view what, const auto& from, double part,
                         std::string_view which, std::string baseline = {},
                         const std::vector<double>* divisor = nullptr,
                         std::optional<double> bar = {})
    {
        row r{w.named(fmt::format("{}, {}", what, which)), percentile(from.samples(), part), "ns"};
        if (divisor != nullptr)
        {
            r.baseline = w.named(fmt::format("{}, {}", baseline, which));
            r.ratio = r.value / percentile(*divisor, part);
            r.bar = bar;
        }
        report.add(std::move(r));
    };
    const std::string floor = "a script that publishes to its message";
    add("hand-over", mutex, 0.5, "p50", floor, &script.samples(), w.server_is_apart() ? 1.35 : 1.5);
    add("hand-over", mutex, 0.99, "p99", floor, &script.samples(), 3.0);
    add(floor, script, 0.5, "p50");
    add(floor, script, 0.99, "p99");
    add("PUBLISH to its message", publish, 0.5, "p50");
    add("PUBLISH to its message", publish, 0.99, "p99");
    add("hand-over in a cohort", inside, 0.5, "p50", "hand-over", &mutex.samples(), 1.0 / 20);
    add("hand-over in a cohort", inside, 0.99, "p99", "hand-over", &mutex.samples());
    add("hand-over past a disconnected waiter", past_dead, 0.5, "p50", "hand-over",
        &mutex.samples());
    // Not counted: the commands of both critical sections, and the crashed waiter's own acquire.
    report.add({w.named("commands of a hand-over past a disconnected waiter"),
                commands / (rounds * repetitions) - 1,
                "",
                {},
                {},
                4.0});
}

/// The delay that an unresponsive waiter adds: its connection is open, but its process does
/// not answer.
void half_open(world& w, report& report)
{
    constexpr auto claim = 200ms;
    constexpr int rounds = 5;
    relay mutex{w, "half-open", redis::mutex_options().lease(2s).claim_lease(claim)};
    raw_lock stopped{w.bare, "half-open"};
    bare_connection deaf{w.context, w.server.port()};
    std::uint64_t sequence = 0;
    const auto queue_stopped = [&]() -> asio::awaitable<void>
    { co_await w.bare.send(stopped.acquire(raw_lock::id(++sequence), "2000", "200")); };
    const auto all = [&]() -> asio::awaitable<void>
    {
        boost::redis::request request;
        request.push("SUBSCRIBE", raw_lock::channel());
        request.push("PING");
        co_await deaf.get().async_exec(request, boost::redis::ignore, asio::deferred);
        for (int i = 0; i != rounds; ++i)
            co_await mutex.hand(queue_stopped);
    };
    w.run(all);
    const double taken = median(mutex.samples());
    report.add({w.named("hand-over past a stopped waiter"), taken, "ns",
                "the claim lease of 200 ms", taken / std::chrono::nanoseconds(claim).count()});
}

/// Many workers of two clients compete for one lock.
void contended(world& w, report& report)
{
    constexpr int workers = 50;
    constexpr int sections = 40;
    redis::async_mutex first{w.session, "contended"};
    redis::async_mutex second{w.other, "contended"};
    std::vector<std::pair<std::uint64_t, int>> turns;
    const auto work = [&](int who) -> asio::awaitable<void>
    {
        redis::async_mutex& mutex = who % 2 == 0 ? first : second;
        for (int i = 0; i != sections; ++i)
        {
            // The release and the next acquire are sent together, so no other client is granted the
            // lock in between.
            const auto guard = co_await mutex.async_lock();
            turns.emplace_back(guard.fencing_token(), who);
        }
    };
    const auto sent = [&] { return w.session.metrics().acquires + w.other.metrics().acquires; };
    const auto before = sent();
    w.run_all(workers, work);
    report.add({w.named("acquire commands for each contended section"),
                static_cast<double>(sent() - before) / (workers * sections),
                "",
                {},
                {},
                1.0});

    std::sort(turns.begin(), turns.end());
    std::size_t longest = 0;
    std::vector<std::optional<std::size_t>> last(workers);
    for (std::size_t turn = 0; turn != turns.size(); ++turn)
    {
        auto& previous = last[static_cast<std::size_t>(turns[turn].second)];
        if (previous)
            longest = std::max(longest, turn - *previous - 1);
        previous = turn;
    }
    report.add({w.named("turns of others between two of one of 50, at most"),
                static_cast<double>(longest),
                "",
                {},
                {},
                workers - 1.0});
}

/// Many workers of one client compete for one lock, with and without hand-over within the session.
void cohort(world& w, report& report, unsigned repetitions)
{
    constexpr int workers = 50;
    constexpr int sections = 20;
    redis::async_mutex plain{w.session, "no cohort"};
    redis::async_mutex passed_on{w.session, "cohort", redis::mutex_options().cohort(1000)};
    const auto section = [&](redis::async_mutex& mutex)
    {
        const auto work = [&](int) { return lock_and_unlock(mutex, sections); };
        return w.run_all(workers, work) / (workers * sections);
    };
    const std::string with = w.named("a section of one of 50 in one session, cohort of 1,000");
    const std::string without = w.named("a section of one of 50 in one session");
    const redis::session_metrics before = w.session.metrics();
    comparer{report, repetitions}(
        {{with, [&] { return section(passed_on); }}, {without, [&] { return section(plain); }}},
        {{with, without, 1.0 / 20}, {without}});
    if (w.session.metrics().handed_over == before.handed_over)
        throw std::runtime_error("nothing was passed on");
}

// --- nothing to do ------------------------------------------------------------------------------

/// Of the locks below. The identities of sessions have keys of their own.
double number_of_keys(const redis_server& server)
{
    const std::string keys = server.cli({"KEYS", "*idle%20*"});
    return static_cast<double>(std::count(keys.begin(), keys.end(), '\n')) + (keys.empty() ? 0 : 1);
}

void idle(world& w, report& report)
{
    constexpr int locks = 100;
    constexpr auto lease = 300ms;
    constexpr auto idle_time = 200ms;
    redis::config settings = world::settings_of(w.server);
    settings.idle_time = idle_time;
    settings.health_check = 100ms;
    redis::session session{w.context, settings};
    // The session has a longer lease, because its connection runs a script after each of its leases.
    const auto options = redis::mutex_options().lease(lease).claim_lease(lease);
    std::vector<std::unique_ptr<redis::async_mutex>> mutexes;
    for (int i = 0; i != locks; ++i)
        mutexes.push_back(
            std::make_unique<redis::async_mutex>(session, fmt::format("idle {}", i), options));

    // The connection sends health checks, and this benchmark sends INFO.
    const auto commands = [&]
    {
        double result = 0;
        for (const auto& [name, calls] : server_counters(w.server).all_calls())
            if (name != "ping" && name != "info")
                result += calls;
        return result;
    };
    w.server.run({"FLUSHALL"});
    w.run_all(locks,
              [&](int i) { return lock_and_unlock(*mutexes[static_cast<std::size_t>(i)], 3); });
    if (number_of_keys(w.server) == 0)
        throw std::runtime_error("the locks left no keys to expire");
    const double before = commands();
    w.run([&] { return pause(lease + idle_time + 500ms); });
    report.add({w.named("commands of 100 idle locks"), commands() - before, "", {}, {}, 0.0});
    report.add({w.named("keys of 100 idle locks, after the idle time"),
                number_of_keys(w.server),
                "",
                {},
                {},
                0.0});
    w.run([&] { return session.async_close(asio::use_awaitable); });
}

/// The cost of waiters for a held lock.
void parked(world& w, report& report)
{
    constexpr int count = 10'000;
    redis::async_mutex first{w.session, "parked"};
    auto second = std::make_unique<redis::async_mutex>(w.other, "parked");
    redis::async_mutex::guard_type guard;
    int left = count;
    const auto wait = [&]() -> asio::awaitable<void>
    { static_cast<void>(co_await second->async_lock()); };
    const auto sent = [&]
    {
        const redis::session_metrics m = w.other.metrics();
        return m.acquires + m.cancels + m.renewals + m.nudges + m.resyncs;
    };
    const auto park = [&]() -> asio::awaitable<void>
    {
        guard = co_await first.async_lock();
        for (int i = 0; i != count; ++i)
            asio::co_spawn(w.context, wait(),
                           [&](const std::exception_ptr&)
                           {
                               if (--left == 0)
                                   w.context.stop();
                           });
        co_await asio::post(w.context, asio::deferred);
        co_await w.other.async_ping();
    };
    // The second round reuses buffers, and memory that Asio caches, from the first one.
    double bytes = 0;
    std::uint64_t commands = 0;
    for (int round = 0; round != 2; ++round)
    {
        left = count;
        const auto before = ::mallinfo2().uordblks;
        w.run(park);
        bytes = static_cast<double>(::mallinfo2().uordblks - before) / count;
        const std::uint64_t sent_before = sent();
        w.run([] { return pause(1s); });
        commands = sent() - sent_before;
        // Destroying the object aborts its waiters.
        second.reset();
        w.context.restart();
        w.context.run();
        w.run(
            [&]() -> asio::awaitable<void>
            {
                co_await w.other.async_ping();
                co_await guard.async_unlock();
            });
        second = std::make_unique<redis::async_mutex>(w.other, "parked");
    }
    report.add({w.named("bytes in the client for each of 10,000 waiters, with its coroutine"),
                bytes, "B"});
    report.add({w.named("commands of 10,000 waiters in a second"),
                static_cast<double>(commands),
                "",
                {},
                {},
                0.0});
}

// --- many waiters -------------------------------------------------------------------------------

/// Mean times of a command in nanoseconds: of its script in the server, and overall with many commands
/// in flight.
struct mean_times
{
    double script;
    double command;
};

/// Sends a command for each number, many at a time, and passes each reply to @p keep.
template <class Words, class Keep>
mean_times for_each_number(world& w, int count, const Words& words, const Keep& keep)
{
    constexpr int lanes = 100;
    const server_counters before(w.server);
    const auto begin = std::chrono::steady_clock::now();
    w.run_all(lanes,
              [&](int first) -> asio::awaitable<void>
              {
                  for (int i = first; i < count; i += lanes)
                  {
                      const std::vector<std::string> answer = co_await w.bare.send(words(i));
                      keep(i, answer);
                  }
              });
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    const server_counters after(w.server);
    return {1000 * (after.microseconds("evalsha") - before.microseconds("evalsha")) / count,
            took.count() / count};
}

void many_waiters(world& w, report& report)
{
    constexpr int count = 100'000;
    raw_lock raw{w.bare, "many"};
    raw_command empty = raw_script(w, empty_script, {"0"});
    const std::string sha = empty.word(1);
    const auto id = [](int i) { return raw_lock::id(1'000'000 + static_cast<std::uint64_t>(i)); };
    const auto for_all = [&](int number, auto words)
    { return for_each_number(w, number, words, [](int, const std::vector<std::string>&) {}); };
    slow_log log(w.server);

    const mean_times nothing =
        for_all(count, [&](int) { return world::words("EVALSHA", sha, "0"); });
    const double slow_nothing = log.take();

    // The first client holds the lock until the end.
    const auto enter = [&](int i) { return raw.acquire(id(i), "600000", "600000"); };
    const mean_times enqueue = for_all(count, enter);
    const double bytes =
        std::stod(w.server.cli({"MEMORY", "USAGE", raw.key() + "{queue}", "SAMPLES", "0"})) /
            (count - 1) -
        static_cast<double>(id(0).size());
    // All except the first one, in an order unrelated to the queue's.
    const auto leave = [&](int i)
    {
        const std::int64_t shuffled = std::int64_t{i} * 7919 % (count - 1);
        return raw.cancel(id(1 + static_cast<int>(shuffled)));
    };
    const mean_times cancel = for_all(count - 1, leave);
    const double slow = log.take();

    // The same again, one script at a time.
    const auto all_in_turn = [&]
    {
        return long_commands(w, 2 * count - 2, [&](int i, const std::vector<std::string>&)
                             { return i < count - 1 ? enter(1 + i) : leave(i - (count - 1)); });
    };
    const std::set<int> long_scripts = all_in_turn();
    const std::size_t long_twice = in_both(long_scripts, all_in_turn());
    log.take();

    // All these waiters are disconnected when the lock reaches them.
    constexpr int dead = 6'400;
    for_all(dead, [&](int i) { return enter(count + i); });
    log.take();
    w.run([&]() -> asio::awaitable<void> { co_await w.bare.send(raw.cancel(id(0))); });
    const mean_times drop = for_all(dead / 64 - 1, [&](int) { return raw.nudge(); });
    if (w.server.cli({"ZCARD", raw.key() + "{queue}"}) != "0")
        throw std::runtime_error("disconnected waiters were left");
    const double slow_drops = log.take();
    w.server.run({"FLUSHALL"});

    const std::string floor = w.named("an empty script, beside 100,000 waiters");
    const auto add = [&](std::string_view what, const mean_times& times, std::optional<double> bar)
    {
        report.add(
            {w.named(what), times.command, "ns", floor, times.command / nothing.command, bar});
        report.add({w.named(what) + ", by the server's account", times.script, "ns"});
    };
    report.add({w.named("bytes in the server for each of 100,000 waiters, beside the id"),
                bytes,
                "B",
                {},
                {},
                150.0});
    add("enqueueing one of 100,000", enqueue, {});
    add("cancelling one of 100,000", cancel, 3.0);
    report.add({floor, nothing.command, "ns"});
    report.add({w.named("dropping 64 disconnected waiters"), drop.script, "ns"});
    report.add({w.named("scripts over 1 ms of processor time, twice, of 200,000"),
                static_cast<double>(long_twice),
                "",
                {},
                {},
                0.0});
    report.add({w.named("scripts over 1 ms, of 200,000 with 100,000 waiters"), slow, ""});
    report.add({w.named("the same while dropping 64 disconnected waiters, of 100"),
                slow_drops,
                "",
                {},
                {},
                0.0});
    report.add({w.named("the same of 100,000 empty scripts"), slow_nothing, ""});
}

/// A semaphore with many waiters, and one with many holders.
void many_permits(world& w, report& report)
{
    constexpr int count = 100'000;
    raw_command empty = raw_script(w, empty_script, {"0"});
    const std::string sha = empty.word(1);
    const auto id = [](int i) { return raw_lock::id(1'000'000 + static_cast<std::uint64_t>(i)); };
    const auto memory = [&] { return server_counters(w.server).memory(); };
    std::vector<std::string> fences(count);
    // Checks the beginning of each reply: another reply means that another case is measured.
    const auto for_all = [&](const std::string& expected, const auto& words)
    {
        return for_each_number(w, count, words,
                               [&](int i, const std::vector<std::string>& answer)
                               {
                                   if (!answer.front().starts_with(expected))
                                       throw std::runtime_error(answer.front() + " and not " +
                                                                expected);
                                   std::istringstream parts(answer.front());
                                   std::string word;
                                   parts >> word >> word >> fences[static_cast<std::size_t>(i)];
                               });
    };
    const auto fence = [&](int i) { return fences[static_cast<std::size_t>(i)]; };
    // In an order unrelated to that of arrival.
    const auto shuffled = [](int i) { return static_cast<int>(std::int64_t{i} * 7919 % count); };
    const mean_times nothing = for_all("1", [&](int) { return world::words("EVALSHA", sha, "0"); });

    // Each acquire removes disconnected waiters at the head of the queue, so the waiters here have to
    // be subscribed.
    boost::redis::generic_flat_response messages;
    w.listener.get().set_receive_response(messages);
    w.run(
        [&]() -> asio::awaitable<void>
        {
            boost::redis::request request;
            request.push("SUBSCRIBE", raw_lock::channel());
            co_await w.listener.get().async_exec(request, boost::redis::ignore, asio::deferred);
            co_await w.listener.get().async_receive2(asio::deferred);
        });

    const raw_pool waited_for{"waited for", 1};
    w.run([&]() -> asio::awaitable<void>
          { co_await w.bare.send(waited_for.acquire(raw_lock::id(0))); });
    double before = memory();
    const mean_times enqueue = for_all("queued", [&](int i) { return waited_for.acquire(id(i)); });
    const double for_waiter = (memory() - before) / count;
    const mean_times cancel =
        for_all("cancelled", [&](int i) { return waited_for.cancel(id(shuffled(i))); });

    const raw_pool held{"held", count};
    before = memory();
    const mean_times acquire = for_all("own", [&](int i) { return held.acquire(id(i)); });
    const double for_permit = (memory() - before) / count;
    const mean_times renew = for_all("own", [&](int i) { return held.renew(id(i), fence(i)); });
    const mean_times release =
        for_all("released", [&](int i) { return held.release(id(i), fence(i)); });
    w.server.run({"FLUSHALL"});

    const std::string floor = w.named("an empty script, beside 100,000 permits");
    const auto add = [&](std::string_view what, const mean_times& times)
    { report.add({w.named(what), times.command, "ns", floor, times.command / nothing.command}); };
    report.add(
        {w.named("bytes in the server for each of 100,000 waiters for permits"), for_waiter, "B"});
    report.add({w.named("bytes in the server for each of 100,000 permits"), for_permit, "B"});
    add("enqueueing one of 100,000 for a permit", enqueue);
    add("cancelling one of 100,000 for a permit", cancel);
    add("acquiring one of 100,000 permits", acquire);
    add("renewing one of 100,000 permits", renew);
    add("releasing one of 100,000 permits", release);
    report.add({floor, nothing.command, "ns"});
}

// --- all of it ----------------------------------------------------------------------------------

void in_place(const site& here, report& report, const options& o)
{
    here.measure("uncontended", [&](world& w) { uncontended(w, report, o.repetitions); });
    here.measure("scripts", [&](world& w) { scripts(w, report, o.repetitions); });
    here.measure("hand-over", [&](world& w) { hand_over(w, report, o.repetitions); });
    here.measure("cohort", [&](world& w) { cohort(w, report, o.repetitions); });
    here.measure("half-open", [&](world& w) { half_open(w, report); });
    here.measure("pipelined", [&](world& w) { pipelined(w, report, o.repetitions); });
    here.measure("contended", [&](world& w) { contended(w, report); });
    here.measure("idle", [&](world& w) { idle(w, report); });
    here.measure("parked", [&](world& w) { parked(w, report); });
    here.measure("many", [&](world& w) { many_waiters(w, report); });
    here.measure("permits", [&](world& w) { many_permits(w, report); });
    here.measure("readers-writers",
                 [&](world& w) { readers_and_writers(w, report, o.repetitions); });
    if (o.wants("peers"))
        compare_peers(here.server, here.where, report, o.peers, o.peer_repetitions, o.peer_seconds);
}

int run(const options& o)
{
    return measure_everywhere(o, [&](const site& here, report& out) { in_place(here, out, o); });
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv)
{
    bench::options o;
    std::vector<std::string> peers;
    CLI::App app("Compares a lock over Redis with the commands that it consists of, and with other "
                 "locks.",
                 "bench_redis");
    o.add_to(app, {"uncontended", "scripts", "hand-over", "cohort", "half-open", "pipelined",
                   "contended", "idle", "parked", "many", "permits", "readers-writers", "peers"});
    app.add_option("--repetitions", o.repetitions, "Number of measurements of each slice")
        ->check(CLI::PositiveNumber);
    app.add_option("--peer-repetitions", o.peer_repetitions, "Number of turns of each peer")
        ->check(CLI::PositiveNumber);
    app.add_option("--peer-seconds", o.peer_seconds, "Seconds per turn of a peer")
        ->check(CLI::PositiveNumber);
    app.add_option("--peer", peers,
                   "NAME=COMMAND of another lock's program, or NAME! and why it is missing");
    CLI11_PARSE(app, argc, argv);
    try
    {
        for (const std::string& each : peers)
            o.peers.push_back(bench::parse_peer(each));
        return bench::run(o);
    }
    catch (const std::exception& error)
    {
        fmt::print(stderr, "bench_redis: {}\n", error.what());
        return EXIT_FAILURE;
    }
}

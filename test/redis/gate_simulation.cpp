// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/gate_client.hpp"
#include "support/random_runs.hpp"
#include "support/redis_store.hpp"
#include "support/script_engine.hpp"
#include "support/sent_command.hpp"

// Random histories of clients and one gate: connections break, commands in flight are lost or arrive late, and users
// cancel. In some histories, replicas that lack the last calls take over. TURNSTILE_RANDOM_RUNS is the number of
// histories of each kind.

namespace turnstile::test {
namespace {

using namespace std::chrono_literals;
using redis::detail::client_result;
using redis::detail::gate_action;
using redis::detail::gate_call;
using redis::detail::gate_client;
using redis::detail::gate_ended;
using redis::detail::gate_request_id;
using redis::detail::local_time;
using gate_command = sent_gate_command;

/// A request of a client, and its state.
struct wish
{
    gate_call what;
    std::size_t begun;
    bool is_cancelled = false;
    bool is_over = false;
    client_result result = client_result::open;
    /// Whether it was cancelled while the server could not answer whether that was in time.
    bool is_uncertain = false;
};

/// A client and its connection.
struct peer
{
    peer(std::uint64_t nonce, const redis::detail::gate_options& options)
        : client(nonce, "w:")
        , gate(client.open_gate(options))
        , number(nonce)
    {
    }

    [[nodiscard]] std::string channel() const
    {
        return "w:" + redis::detail::wake_name(number, incarnation);
    }

    struct answer
    {
        std::uint64_t number;
        std::string text;
    };

    gate_client client;
    redis::detail::gate_id gate;
    std::uint64_t number;
    std::uint64_t incarnation = 0;
    bool up = false;
    std::deque<gate_command> to_server;
    /// Answers, and messages, which are texts.
    std::deque<std::variant<answer, std::string>> to_client;
    std::map<gate_request_id, wish> wishes;
};

class world
{
public:
    world(std::uint64_t seed, std::string_view kind, std::int64_t number, bool fails_over = false)
        : dice_(seed)
        , fails_over_(fails_over)
    {
        options_.keys = redis::detail::gate_keys("t", kind, "gate");
        options_.number = number;
        store_.clock = 1'700'000'000'000'000;
        for (std::uint64_t i = 1; i <= 3; ++i)
            peers_.emplace_back(i, options_);
        replica_ = store_;
    }

    /// Takes a random step: a call of a user, a fault, or progress of a message.
    void step(const std::vector<gate_call>& calls)
    {
        ++step_;
        peer& who = peers_[dice_.below(static_cast<unsigned>(peers_.size()))];
        if (fails_over_ && dice_.below(8) == 0)
            return dice_.below(4) == 0 ? fail_over() : replicate();
        switch (dice_.below(12))
        {
        case 0:
            return cut(who);
        case 1:
            return pass(std::chrono::microseconds(dice_.below(20'000)));
        case 2:
            return late();
        case 3:
        {
            const auto id = who.wishes.empty() ? 0 : who.wishes.rbegin()->first;
            if (id != 0 && dice_.coin())
                cancel(who, id);
            return;
        }
        case 4:
        case 5:
            return begin(who, dice_.one_of(calls));
        case 6:
            return connect(who);
        case 7:
        case 8:
        case 9:
            return execute(who);
        default:
            return deliver(who);
        }
    }

    /// Ends the faults, and lets everything in transit arrive. Then, no request waits for a timer.
    void settle()
    {
        while (!late_.empty())
            late();
        for (peer& each : peers_)
            connect(each);
        exchange();
        const auto unfinished = count([](const wish& each) { return !each.is_over; });
        for (int third = 0; third < 9; ++third)
        {
            pass(options_.lease / 3);
            for (const peer& each : peers_)
                check_commands(each);
            exchange();
        }
        BOOST_TEST(count([](const wish& each) { return !each.is_over; }) == unfinished);
    }

    [[nodiscard]] bool is_open() const { return number() == 0; }
    [[nodiscard]] std::int64_t number() const
    {
        const auto* const state = store_.hash(options_.keys[0]);
        return state != nullptr ? std::stoll(state->at("number")) : options_.number;
    }

    /// The number of arrivals at a barrier.
    [[nodiscard]] std::size_t arrivals() const
    {
        const auto* const set = store_.zset(options_.keys[3]);
        return set != nullptr ? set->order.size() : 0;
    }

    /// The number of requests that fulfil a predicate.
    template <class Predicate>
    [[nodiscard]] std::int64_t count(Predicate which) const
    {
        std::int64_t result = 0;
        for (const peer& each : peers_)
            for (const auto& [id, wanted] : each.wishes)
                result += which(wanted) ? 1 : 0;
        return result;
    }

    /// The number of times that the waiters were released.
    std::int64_t openings = 0;
    /// The last step at which the gate was open.
    std::size_t last_open = 0;

private:
    /// Lets everything in transit arrive.
    void exchange()
    {
        bool is_quiet = false;
        while (!std::exchange(is_quiet, true))
            for (peer& each : peers_)
                while (!each.to_server.empty() || !each.to_client.empty())
                {
                    ++step_;
                    is_quiet = false;
                    execute(each);
                    deliver(each);
                }
    }

    /// A client without requests sends nothing. Otherwise, it renews each arrival after a third of its lease, and sends
    /// one command per lease for all other waiters.
    void check_commands(const peer& who)
    {
        const auto waits = [&](bool at_barrier)
        {
            return std::ranges::count_if(who.wishes,
                                         [&](const auto& each)
                                         {
                                             return !each.second.is_over &&
                                                    (each.second.what == gate_call::meet) ==
                                                        at_barrier;
                                         });
        };
        const auto sent = static_cast<std::ptrdiff_t>(who.to_server.size());
        BOOST_TEST(sent <= waits(true) + std::min<std::ptrdiff_t>(waits(false), 1));
        if (waits(true) == 0)
        {
            const bool asked = std::exchange(asked_[who.number], sent != 0);
            BOOST_TEST((sent == 0 || !asked));
        }
    }

    void begin(peer& who, gate_call what)
    {
        // As in a program, a participant that waits at a barrier does nothing else there.
        if (what == gate_call::meet && !who.wishes.empty() && !who.wishes.rbegin()->second.is_over)
            return;
        const auto id = who.client.begin(now_, who.gate, what);
        who.wishes.emplace(id, wish{what, step_});
        collect(who);
    }

    void cancel(peer& who, gate_request_id id)
    {
        wish& wanted = who.wishes.at(id);
        if (wanted.is_over || (wanted.what != gate_call::wait && wanted.what != gate_call::meet &&
                               wanted.what != gate_call::arrive_and_wait))
            return;
        wanted.is_cancelled = true;
        who.client.cancel(now_, id);
        if (!who.up)
            wanted.is_uncertain = true;
        collect(who);
    }

    void connect(peer& who)
    {
        if (std::exchange(who.up, true))
            return;
        ++who.incarnation;
        store_.subscribers[who.channel()] = 1;
        who.client.connected(now_, who.incarnation);
        collect(who);
    }

    void cut(peer& who)
    {
        if (!std::exchange(who.up, false))
            return;
        store_.subscribers.erase(who.channel());
        // Commands in flight are lost, or reach the server later.
        if (dice_.coin())
            for (gate_command& each : who.to_server)
                late_.push_back(std::move(each));
        who.to_server.clear();
        who.to_client.clear();
        for (auto& [id, wanted] : who.wishes)
            wanted.is_uncertain = wanted.is_uncertain || (wanted.is_cancelled && !wanted.is_over);
        who.client.disconnected(now_);
        collect(who);
    }

    void replicate() { replica_ = store_; }

    void fail_over()
    {
        for (peer& each : peers_)
            cut(each);
        late_.clear();
        const std::int64_t clock = store_.clock;
        store_ = replica_;
        store_.clock = clock;
        store_.subscribers.clear();
    }

    void late()
    {
        if (late_.empty())
            return;
        run(late_.front());
        late_.pop_front();
    }

    void execute(peer& who)
    {
        if (who.to_server.empty())
            return;
        const gate_command command = std::move(who.to_server.front());
        who.to_server.pop_front();
        const std::string text = run(command);
        who.to_client.emplace_back(peer::answer{command.number, text});
    }

    std::string run(const gate_command& command)
    {
        store_.published.clear();
        const redis_reply reply =
            engine().run(store_, command.script, command.keys, command.arguments);
        BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
        for (const auto& [channel, text] : store_.published)
            for (peer& each : peers_)
                if (each.up && each.channel() == channel)
                    each.to_client.emplace_back(text);
        if (!store_.published.empty())
            ++openings;
        if (is_open())
            last_open = step_;
        return reply.leaves().at(0);
    }

    void deliver(peer& who)
    {
        if (who.to_client.empty())
            return;
        const auto what = std::move(who.to_client.front());
        who.to_client.pop_front();
        if (const auto* const said = std::get_if<peer::answer>(&what))
            who.client.answered(now_, said->number, said->text);
        else
            who.client.received(now_, std::get<std::string>(what));
        collect(who);
    }

    void pass(std::chrono::microseconds span)
    {
        store_.clock += span.count();
        now_ += span;
        for (peer& each : peers_)
        {
            each.client.tick(now_);
            collect(each);
        }
    }

    void collect(peer& who)
    {
        for (gate_action& each : who.client.take_actions())
        {
            if (auto* const command = std::get_if<redis::detail::gate_command>(&each))
            {
                BOOST_TEST(who.up);
                who.to_server.emplace_back(*command);
                continue;
            }
            const auto& end = std::get<gate_ended>(each);
            wish& wanted = who.wishes.at(end.request);
            BOOST_TEST(!wanted.is_over);
            wanted.is_over = true;
            wanted.result = end.result;
            // A wait may only end as open if the gate was open since it began.
            if (end.result == client_result::open && wanted.what == gate_call::wait)
                BOOST_TEST(last_open >= wanted.begun);
            BOOST_TEST((end.result != client_result::cancelled || wanted.is_cancelled));
        }
    }

    static script_engine& engine()
    {
        static script_engine one;
        return one;
    }

    dice dice_;
    bool fails_over_;
    redis::detail::gate_options options_;
    redis_store store_;
    redis_store replica_;
    local_time now_ = 1h;
    std::size_t step_ = 0;
    std::deque<peer> peers_;
    std::deque<gate_command> late_;
    /// Whether each client has asked in the last third of a lease.
    std::map<std::uint64_t, bool> asked_;
};

constexpr int steps = 300;

BOOST_AUTO_TEST_SUITE(redis_gate_simulation)

BOOST_AUTO_TEST_CASE(a_set_event_releases_all_waiters)
{
    std::int64_t went = 0;
    run_seeds(
        300,
        [&](std::uint64_t seed)
        {
            world w(seed, "event", 1, seed % 2 == 0);
            for (int i = 0; i < steps && all_is_well(); ++i)
                w.step({gate_call::wait, gate_call::wait, gate_call::set, gate_call::reset});
            w.settle();
            // When everything has arrived, only an event that is not set has waiters.
            const auto waits = w.count([](const wish& each)
                                       { return !each.is_over && each.what == gate_call::wait; });
            BOOST_TEST((waits == 0 || !w.is_open()));
            BOOST_TEST(w.count([](const wish& each) { return !each.is_over; }) == waits);
            went += w.count(
                [](const wish& each)
                { return each.what == gate_call::wait && each.result == client_result::open; });
        });
    BOOST_TEST(went > 0);
}

BOOST_AUTO_TEST_CASE(latches_count_each_arrival_once)
{
    run_seeds(
        300,
        [&](std::uint64_t seed)
        {
            constexpr std::int64_t count = 1000;
            world w(seed, "latch", count);
            for (int i = 0; i < steps && all_is_well(); ++i)
                w.step({gate_call::count_down, gate_call::arrive_and_wait, gate_call::wait});
            w.settle();
            // Each arrival counts, even if its wait is cancelled at once.
            BOOST_TEST(w.number() == count - w.count([](const wish& each)
                                                     { return each.what != gate_call::wait; }));
            BOOST_TEST(w.count([](const wish& each)
                               { return each.what == gate_call::count_down && !each.is_over; }) ==
                       0);
        });
}

BOOST_AUTO_TEST_CASE(latches_open_for_all)
{
    run_seeds(
        300,
        [&](std::uint64_t seed)
        {
            world w(seed, "latch", 3);
            for (int i = 0; i < steps && all_is_well(); ++i)
                w.step({gate_call::count_down, gate_call::arrive_and_wait, gate_call::wait,
                        gate_call::wait});
            w.settle();
            const auto arrived = w.count(
                [](const wish& each)
                { return each.what != gate_call::wait && each.result != client_result::excess; });
            BOOST_TEST(w.number() == 3 - std::min<std::int64_t>(arrived, 3));
            if (w.is_open())
                BOOST_TEST(w.count([](const wish& each) { return !each.is_over; }) == 0);
        });
}

BOOST_AUTO_TEST_CASE(barriers_count_each_arrival_in_one_round)
{
    std::int64_t rounds = 0;
    run_seeds(300,
              [&](std::uint64_t seed)
              {
                  for (const std::int64_t participants : {2, 3})
                  {
                      world w(seed, "barrier", participants);
                      for (int i = 0; i < steps && all_is_well(); ++i)
                          w.step({gate_call::meet});
                      w.settle();
                      const auto met =
                          w.count([](const wish& each)
                                  { return each.is_over && each.result == client_result::open; });
                      // An arrival that was cancelled without an answer may have been counted.
                      const auto perhaps = w.count(
                          [](const wish& each)
                          { return each.is_uncertain && each.result == client_result::cancelled; });
                      BOOST_TEST(met <= w.openings * participants);
                      BOOST_TEST(met + perhaps >= w.openings * participants);
                      BOOST_TEST(w.count([](const wish& each) { return !each.is_over; }) ==
                                 static_cast<std::int64_t>(w.arrivals()));
                      rounds += w.openings;
                  }
              });
    BOOST_TEST(rounds > 0);
}

// A replica that takes over may lack the end of a round.
BOOST_AUTO_TEST_CASE(a_failover_leaves_no_participant_waiting_without_an_arrival)
{
    std::int64_t rounds = 0;
    run_seeds(300,
              [&](std::uint64_t seed)
              {
                  for (const std::int64_t participants : {2, 3})
                  {
                      world w(seed, "barrier", participants, true);
                      for (int i = 0; i < steps && all_is_well(); ++i)
                          w.step({gate_call::meet});
                      w.settle();
                      const auto waits = w.count([](const wish& each) { return !each.is_over; });
                      // Arrivals of the lost round may be left.
                      BOOST_TEST(waits <= static_cast<std::int64_t>(w.arrivals()));
                      BOOST_TEST(waits < participants);
                      rounds += w.openings;
                  }
              });
    BOOST_TEST(rounds > 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

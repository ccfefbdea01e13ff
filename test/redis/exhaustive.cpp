// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "support/exhaustive.hpp"

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <vector>

#include "support/random_runs.hpp"
#include "support/script_engine.hpp"
#include "support/weakened_scripts.hpp"

// Explores every possible history of a few clients and one lock. TURNSTILE_EXHAUSTIVE=1 adds larger worlds, which
// take some minutes.

namespace turnstile::test {
namespace {

using enum fault;
using redis::detail::safeguards;

/// Decides in which builds a world is explored.
enum class size
{
    small,
    medium,
    large,
};

bool is_worth_it(size each)
{
    const size usual = simulations_run_in_full() ? size::medium : size::small;
    return each <= usual || number_from("TURNSTILE_EXHAUSTIVE", 0) != 0;
}

struct world
{
    const char* name;
    exhaustive_options options;
    size how_large = size::small;

    friend std::ostream& operator<<(std::ostream& stream, const world& each)
    {
        return stream << each.name;
    }
};

exhaustive_options with(unsigned clients, unsigned most_faults, std::initializer_list<fault> faults)
{
    exhaustive_options result;
    result.clients = clients;
    result.most_faults = most_faults;
    result.faults = only(faults);
    return result;
}

exhaustive_options with_cancels(unsigned cancels, exhaustive_options options)
{
    options.most_cancels = cancels;
    return options;
}

exhaustive_options with_sections(unsigned sections, exhaustive_options options)
{
    options.sections = sections;
    return options;
}

exhaustive_options with_a_try(exhaustive_options options)
{
    options.tries = true;
    return options;
}

exhaustive_options with_lease(unsigned lease, exhaustive_options options)
{
    options.lease = lease;
    return options;
}

exhaustive_options with_consumers(unsigned consumers, exhaustive_options options)
{
    options.consumers = consumers;
    return options;
}

exhaustive_options with_wakes(unsigned wakes, exhaustive_options options)
{
    options.most_wakes = wakes;
    return options;
}

exhaustive_options with_signals(unsigned notifications, exhaustive_options options)
{
    options.most_signals = notifications;
    return options;
}

std::string describe(const exhaustive_result& result)
{
    std::string text = std::to_string(result.states) + " states, " +
                       std::to_string(result.transitions) + " transitions, of these";
    for (std::size_t i = 0; i < fault_count; ++i)
        if (result.faults[i] != 0)
            text += ' ' + std::string(name_of(static_cast<fault>(i))) + ": " +
                    std::to_string(result.faults[i]) + ',';
    return text + " cancel: " + std::to_string(result.cancels) +
           ", wake: " + std::to_string(result.wakes) +
           ", signal: " + std::to_string(result.notifications) + "; the end is " +
           std::to_string(result.longest_end) + " steps away at most, the queue has " +
           std::to_string(result.longest_queue) + " places, " + std::to_string(result.most_asleep) +
           " sleep";
}

std::string describe_violation(const exhaustive_result& result)
{
    std::string text = result.violation;
    for (const std::string& line : result.trace)
        text += "\n    " + line;
    return text;
}

const std::vector<world>& worlds()
{
    using enum size;
    static const std::vector<world> list{
        {"calm", with_cancels(1, with_a_try(with(2, 0, {}))), small},
        {"calm, long leases", with_lease(6, with(2, 0, {})), small},
        {"crash", with(2, 1, {crash}), small},
        {"refusal, lost message", with(2, 1, {refusal, lost_message}), small},
        {"deletion", with(2, 1, {deletion}), small},
        {"three clients", with(3, 0, {}), medium},
        {"two sections", with_sections(2, with(2, 0, {})), medium},
        {"cut", with(2, 1, {cut}), medium},
        {"pause", with(2, 1, {pause}), medium},
        {"restart", with(2, 1, {restart_empty, restart_aof}), medium},
        {"failover", with(2, 1, {failover}), medium},
        {"clocks", with(2, 1, {clock_back, clock_forward}), medium},
        {"slow", with(2, 1, {slow}), medium},
        {"one fault of any kind",
         with_cancels(1, with(2, 1,
                              {cut, pause, crash, restart_empty, restart_aof, failover, deletion,
                               clock_back, clock_forward, refusal, lost_message, slow})),
         large},
        {"half open", with_cancels(1, with(2, 1, {half_open})), large},
        {"cut and pause", with(2, 2, {cut, pause}), large},
        {"clock back and restart", with(2, 2, {clock_back, restart_empty}), large},
        {"two sections, a cancel", with_cancels(1, with_sections(2, with(2, 0, {}))), large},
        {"three clients, cut", with(3, 1, {cut}), large},
        // Worlds with a condition.
        {"a wait", with_consumers(1, with(2, 0, {})), small},
        {"sleeping, a wake", with_consumers(1, with_wakes(1, with(2, 0, {}))), small},
        {"sleeping, a cancel", with_consumers(1, with_cancels(1, with(2, 0, {}))), small},
        {"sleeping, a wake and a cancel",
         with_consumers(1, with_wakes(1, with_cancels(1, with(2, 0, {})))), medium},
        {"sleeping, a signal that nobody expects",
         with_consumers(1, with_signals(1, with(2, 0, {}))), medium},
        {"sleeping, crash", with_consumers(1, with(2, 1, {crash})), medium},
        {"sleeping, refusal, lost message", with_consumers(1, with(2, 1, {refusal, lost_message})),
         medium},
        {"sleeping, cut", with_consumers(1, with(2, 1, {cut})), medium},
        {"sleeping, pause", with_consumers(1, with(2, 1, {pause})), medium},
        {"sleeping, slow", with_consumers(1, with(2, 1, {slow})), medium},
        {"sleeping, restart", with_consumers(1, with(2, 1, {restart_empty})), medium},
        {"sleeping, failover", with_consumers(1, with(2, 1, {failover})), medium},
        {"sleeping, a server that remembers", with_consumers(1, with(2, 1, {restart_aof})), large},
        {"sleeping, deletion", with_consumers(1, with(2, 1, {deletion})), large},
        {"sleeping, clocks", with_consumers(1, with(2, 1, {clock_back, clock_forward})), large},
        {"two waiters", with_consumers(2, with(3, 0, {})), large},
        {"two waiters, a cancel", with_consumers(2, with_cancels(1, with(3, 0, {}))), large},
        {"two waiters, a time-out", with_consumers(2, with_wakes(1, with(3, 0, {}))), large},
        {"two who put", with_consumers(1, with(3, 0, {})), large},
        {"sleeping, half open", with_consumers(1, with(2, 1, {half_open})), large},
    };
    return list;
}

BOOST_DATA_TEST_CASE(no_history_breaks_a_promise, worlds())
{
    if (!is_worth_it(sample.how_large))
        return;
    script_engine scripts;
    exhaustive_options options = sample.options;
    options.doubtful = sample.how_large < size::large;
    const auto result = explore(scripts, options);
    BOOST_TEST(describe_violation(result) == "");
    BOOST_TEST(result.complete);
    for (std::size_t i = 0; i < fault_count; ++i)
        BOOST_TEST((result.faults[i] != 0) == (options.faults[i] != 0));
    BOOST_TEST((result.cancels != 0) == (options.most_cancels != 0));
    BOOST_TEST((result.wakes != 0) == (options.most_wakes != 0));
    BOOST_TEST((result.notifications != 0) == (options.most_signals != 0));
    BOOST_TEST(result.most_asleep == options.consumers);
    BOOST_TEST_MESSAGE(sample.name << ": " << describe(result));
}

struct safeguard
{
    const char* name;
    /// Disables the safeguard, in the client or in the scripts.
    bool safeguards::* client = nullptr;
    std::vector<script_patch> scripts;
    exhaustive_options options;
    /// The promise that is broken without the safeguard.
    const char* promise;
    size how_large = size::small;

    friend std::ostream& operator<<(std::ostream& stream, const safeguard& each)
    {
        return stream << each.name;
    }
};

const std::vector<safeguard>& all_safeguards()
{
    using enum size;
    static const std::vector<safeguard> list{
        {"a grant is entered only if its deadline is certainly ahead",
         &safeguards::clock_bound,
         {},
         with(2, 1, {slow}),
         "two holders"},
        {"never two commands of one attempt are under way",
         &safeguards::single_flight,
         {},
         with(2, 0, {}),
         "two commands of an attempt are in flight"},
        {"each connection has an incarnation",
         &safeguards::incarnations,
         {},
         with(2, 1, {cut}),
         "disconnected"},
        {"who enters the queue again says which place it had",
         &safeguards::ticket_hints,
         {},
         with(3, 1, {restart_empty}),
         "FIFO",
         medium},
        {"renewals depend on the lease in force",
         &safeguards::lease_in_force,
         {},
         with_lease(6, with(2, 0, {})),
         "a lock was lost though nothing happened"},
        {"what is over is over, before anything else is read",
         &safeguards::deadline_first,
         {},
         with(2, 1, {pause}),
         "continues after the end of its lease"},
        {"waiters ask when the lease of the owner has ended",
         &safeguards::nudge,
         {},
         with(2, 1, {crash}),
         "waits for ever"},
        {"fences are of the server's time", nullptr, without::fences_of_time(),
         with(2, 1, {restart_empty}), "a granted fence is not higher"},
        {"a release knows its grant under a former id", nullptr, without::former_ids(),
         with(2, 1, {cut}), "and the lock not released"},
        {"a former ticket is accepted above the newest one, up to the present time", nullptr,
         without::places_of_the_past(), with(3, 1, {restart_empty}), "FIFO", large},
        {"a lock is reclaimed only if it was not granted since", nullptr, without::later_grants(),
         with(2, 1, {failover}), "although it was granted since"},
        {"the last release is remembered", nullptr, without::memory_of_releases(),
         with_consumers(1, with(2, 1, {cut})), "was denied although it is complete"},
        {"a cancelled waiter passes its notification on", nullptr, without::passing_on(),
         with_cancels(1, with_consumers(2, with(3, 0, {}))), "a notification was lost", medium},
        {"the notification of a crashed waiter passes to the next", nullptr, without::passing_on(),
         with_consumers(2, with(3, 1, {crash})), "a notification was lost", medium},
        {"the notification of a failed section passes to the next", nullptr,
         without::passing_on_by_sections(), with_consumers(1, with(2, 1, {pause})),
         "is still marked as notified"},
        {"disconnected waiters are not notified", nullptr, without::looking_for_the_living(),
         with_consumers(2, with(3, 1, {crash})), "a notification was lost", medium},
        {"a waiter that was notified before its time limit has not timed out",
         nullptr,
         {{"requeue", "return answer(s, nil, id, waited)", "return answer(s, nil, id, 1)"}},
         with_consumers(1, with_wakes(1, with(2, 0, {}))),
         "a notification was taken for a time-out"},
        {"a notification reaches the first waiter",
         nullptr,
         {{"prologue", "local ticket = new_ticket(s, 0)\n",
           "local ticket = format('%d', -s.now)\n"}},
         with_consumers(2, with(3, 0, {})),
         "a notification has not reached the first waiter",
         medium},
        {"a cancelled waiter leaves its condition",
         nullptr,
         {{"cancel", "if condition ~= '' then redis.call('ZREM', waiters_on(s, condition), id) end",
           ""}},
         with_cancels(1, with_consumers(1, with(2, 0, {}))),
         "disconnected"},
        {"the mark of a notification lasts until the end of the section",
         nullptr,
         {{"prologue",
           "if s.conditions then redis.call('HDEL', s.key, mark_field(id)) end\n  return true",
           "return true"}},
         with_consumers(1, with(2, 0, {})),
         "is still marked as notified"},
    };
    return list;
}

// The search finds a broken promise for each missing safeguard.
BOOST_DATA_TEST_CASE(a_disabled_safeguard_breaks_a_promise, all_safeguards())
{
    if (!is_worth_it(sample.how_large))
        return;
    script_engine weakened(without::in_full(sample.scripts));
    exhaustive_options options = sample.options;
    if (sample.client != nullptr)
        options.guards.*sample.client = false;
    const auto result = explore(weakened, options);
    BOOST_TEST(result.violation.find(sample.promise) != std::string::npos,
               sample.name << ": " << result.violation);
    BOOST_TEST_MESSAGE("without '" << sample.name << "', after " << result.states
                                   << " states: " << result.violation);
}

}  // namespace
}  // namespace turnstile::test

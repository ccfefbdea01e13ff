// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/directory_judge.hpp"
#include "support/random_runs.hpp"
#include "support/safeguard.hpp"
#include "support/simulation.hpp"

// Random histories of clients and the semaphores of one directory: connections break, commands in flight are lost or
// arrive late, leases end, and the server's clock is set. TURNSTILE_RANDOM_RUNS is the number of histories.

namespace turnstile::test {
namespace {

using namespace std::chrono_literals;
using namespace directory;
using redis::detail::call_names;

constexpr int most_attempts = 5;

/// How clients treat calls that were sent several times.
enum class habit
{
    careful,
    /// The refusal of a repetition counts as the outcome.
    believes_refusals,
    /// The server may forget the call as soon as one copy was answered.
    forgets_copies,
};

/// A session and its connection.
struct peer
{
    std::uint64_t nonce = 0;
    std::uint64_t incarnation = 1;
    bool up = true;
    call_names names;
    std::uint64_t calls = 0;
    /// The requests without an answer.
    std::set<std::size_t> pending;
    std::deque<std::size_t> to_server;
    std::deque<std::pair<std::size_t, std::string>> to_client;

    [[nodiscard]] std::string connection() const
    {
        return "n" + std::to_string(nonce) + '#' + std::to_string(incarnation);
    }
};

class world
{
public:
    world(script_engine& scripts, std::uint64_t seed, habit clients = habit::careful)
        : scripts_(scripts)
        , habit_(clients)
        , dice_(seed)
        , peers_(3)
    {
        store_.clock = 1'700'000'000'000'000;
        for (peer& each : peers_)
        {
            each.nonce = static_cast<std::uint64_t>(&each - peers_.data());
            store_.subscribers["w:" + each.connection()] = 1;
        }
    }

    /// Takes a random step: a request of a user, a fault, or progress of a message.
    void step()
    {
        peer& who = dice_.one_of(peers_);
        switch (dice_.below(16))
        {
        case 0:
            return cut(who);
        case 1:
        case 2:
            return pass(std::chrono::milliseconds(dice_.below(200)));
        case 3:
            return late();
        case 4:
            if (dice_.below(8) == 0)
                store_.clock += (static_cast<std::int64_t>(dice_.below(4001)) - 2000) * 1000;
            return;
        case 5:
        case 6:
        case 7:
            return begin(who);
        case 8:
            return connect(who);
        case 9:
        case 10:
        case 11:
        case 12:
            return execute(who);
        default:
            return deliver(who);
        }
    }

    /// Lets everything in transit arrive.
    void settle()
    {
        while (!late_.empty())
            late();
        for (peer& each : peers_)
        {
            connect(each);
            while (!each.to_server.empty() || !each.to_client.empty())
            {
                execute(each);
                deliver(each);
            }
            judge_.promise(each.pending.empty(), "a call has no answer");
        }
    }

    [[nodiscard]] const directory::judge& judge() const { return judge_; }

    /// The calls whose users know no outcome.
    std::size_t unknown = 0;

private:
    // --- users and connections --------------------------------------------------------------

    void begin(peer& who)
    {
        request made;
        made.what = static_cast<deed>(dice_.below(number_of_deeds));
        made.pool = dice_.below(2);
        if (!store_.exists(key_of(made.pool)) && dice_.coin())
            made.what = deed::create;
        made.units = 1 + dice_.below(3);
        const std::string units = text(made.units);
        const std::string term = text(300 + dice_.below(3000));
        switch (made.what)
        {
        case deed::create:
            made.script = "pool_enlist";
            made.arguments = {"name" + std::to_string(made.pool), units};
            break;
        case deed::remove:
            // Otherwise, semaphores would hardly live.
            if (dice_.below(3) != 0)
                return;
            made.script = "pool_delist";
            made.arguments = {"name" + std::to_string(made.pool)};
            break;
        case deed::add:
            made.script = "pool_supply";
            made.arguments = {units, ""};
            break;
        case deed::give_back:
        {
            if (taken_.empty())
                return;
            const auto taken = dice_.one_of(taken_);
            std::tie(made.pool, made.units, std::ignore) = taken;
            made.script = "pool_supply";
            made.arguments = {text(made.units), std::get<2>(taken)};
            std::erase(taken_, taken);
            break;
        }
        case deed::take:
            made.id = "permit" + std::to_string(requests_.size());
            made.script = "pool_draw";
            made.arguments = {units, made.id, term, "a client"};
            break;
        case deed::take_for_good:
            made.script = "pool_draw";
            made.arguments = {units, "", "0", ""};
            break;
        case deed::renew:
        case deed::release:
        case deed::free:
            return begin_with_permit(who, made.what, term);
        default:
            return begin_in_session(who, std::move(made), term);
        }
        begin(who, std::move(made));
    }

    /// One of the last elements, which probably still exists.
    template <class Things>
    const auto& recent(const Things& things)
    {
        return things[things.size() - 1 -
                      dice_.below(std::min(3U, static_cast<unsigned>(things.size())))];
    }

    void begin_with_permit(peer& who, deed what, const std::string& term)
    {
        if (permits_.empty())
            return;
        request made;
        made.what = what;
        std::tie(made.pool, made.id) = recent(permits_);
        made.script = "pool_permit";
        if (what == deed::renew)
            made.arguments = {"renew", made.id, term};
        else if (what == deed::release)
            made.arguments = {"release", made.id, ""};
        else
        {
            const auto found = fences_.find(made.id);
            if (found == fences_.end())
                return;
            made.arguments = {"free", found->second, ""};
        }
        begin(who, std::move(made));
    }

    void begin_in_session(peer& who, request made, const std::string& term)
    {
        if (made.what == deed::acquire)
        {
            made.id = who.connection() + '.' + std::to_string(requests_.size());
            made.script = "pool_acquire";
            made.arguments = {made.id, "queue",        "0",  lease, claim,
                              idle,    text(capacity), "-1", "0",   text(made.units),
                              ""};
            return begin(who, std::move(made));
        }
        if (grants_.empty())
            return;
        const auto [id, pool, units, fence] = recent(grants_);
        std::erase_if(grants_, [&](const grant& each) { return each.id == id; });
        made.id = id;
        made.pool = pool;
        made.units = units;
        const bool stays = made.what == deed::keep_for_good;
        const std::string heir = made.what == deed::keep
                                     ? text(units) + ' ' + heir_of(id) + ' ' + term + " a client"
                                     : "";
        made.script = "pool_release";
        made.arguments = {
            id,  fence, "slot", lease, claim, idle, text(capacity), "-1", text(stays ? units : 0),
            heir};
        begin(who, std::move(made));
    }

    void begin(peer& who, request made)
    {
        words arguments{"w:"};
        made.keys = {key_of(made.pool)};
        if (!is_of_session(made.what))
        {
            who.names.begin(made.call, who.nonce, ++who.calls);
            arguments.insert(arguments.end(), {lease, claim, idle, text(capacity), made.call.name,
                                               made.call.before});
            made.keys.emplace_back("index");
        }
        made.arguments.insert(made.arguments.begin(), arguments.begin(), arguments.end());
        requests_.push_back(std::move(made));
        who.pending.insert(requests_.size() - 1);
        if (who.up)
            send(who, requests_.size() - 1);
    }

    void send(peer& who, std::size_t number)
    {
        ++requests_[number].sent;
        who.to_server.push_back(number);
    }

    void connect(peer& who)
    {
        if (std::exchange(who.up, true))
            return;
        ++who.incarnation;
        store_.subscribers["w:" + who.connection()] = 1;
        for (const std::size_t number : std::set<std::size_t>(who.pending))
        {
            request& each = requests_[number];
            if (each.sent < most_attempts && (each.sent == 0 || !is_of_session(each.what)))
                send(who, number);
            else
                give_up(who, number);
        }
    }

    void give_up(peer& who, std::size_t number)
    {
        ++unknown;
        who.names.end(requests_[number].call, false);
        who.pending.erase(number);
    }

    void cut(peer& who)
    {
        if (!std::exchange(who.up, false))
            return;
        store_.subscribers.erase("w:" + who.connection());
        // Commands in flight are lost, or reach the server later.
        for (const std::size_t each : who.to_server)
            if (dice_.coin())
                late_.push_back(each);
        who.to_server.clear();
        who.to_client.clear();
    }

    void deliver(peer& who)
    {
        if (who.to_client.empty())
            return;
        const auto [number, answer] = std::move(who.to_client.front());
        who.to_client.pop_front();
        who.pending.erase(number);
        request& each = requests_[number];
        const bool is_released = answer.starts_with("released");
        if (each.what == deed::keep_for_good && is_released)
            taken_.emplace_back(each.pool, each.units, each.arguments.at(2));
        if (each.what == deed::keep && is_released)
            permits_.emplace_back(each.pool, heir_of(each.id));
        if (is_of_session(each.what))
            return;
        each.call.repeated = each.sent > 1 && habit_ != habit::forgets_copies;
        if (end_call(who.names, each.call, answer) && habit_ != habit::believes_refusals)
        {
            ++unknown;
            return;
        }
        const auto parsed = redis::detail::parse_listed_answer(answer);
        BOOST_TEST_REQUIRE(!parsed.error);
        each.is_answered = true;
        each.is_refused = parsed.answer.status != redis::directory_status::done;
        // A renewal of a permit that has ended since may have been executed.
        judge_.promise(each.executed == !each.is_refused || each.what == deed::renew,
                       "a call was answered wrongly: " + answer);
        const std::string fence = std::to_string(parsed.answer.fencing_token);
        if (each.what == deed::take && !each.is_refused)
        {
            permits_.emplace_back(each.pool, each.id);
            fences_.emplace(each.id, fence);
        }
        if (each.what == deed::take_for_good && !each.is_refused)
            taken_.emplace_back(each.pool, each.units, fence);
    }

    void pass(std::chrono::microseconds span) { store_.clock += span.count(); }

    // --- the server -------------------------------------------------------------------------

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
        const std::size_t number = who.to_server.front();
        who.to_server.pop_front();
        std::string answer = run(number);
        who.to_client.emplace_back(number, std::move(answer));
    }

    std::string run(std::size_t number)
    {
        request& what = requests_[number];
        judge_.before_script(what);
        store_.published.clear();
        const redis_reply reply = scripts_.run(store_, what.script, what.keys, what.arguments);
        BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
        std::string answer = reply.leaves().at(0);
        judge_.after_script(what, answer);
        for (const auto& [fence, id] : judge_.grants_of(what, answer))
        {
            const request& asked = requests_.at(std::stoul(id.substr(id.find('.') + 1)));
            const auto same = [&](const grant& each) { return each.id == id; };
            if (std::ranges::none_of(grants_, same))
                grants_.push_back({id, asked.pool, asked.units, fence});
        }
        return answer;
    }

    struct grant
    {
        std::string id;
        std::size_t pool;
        std::int64_t units;
        std::string fence;
    };

    script_engine& scripts_;
    habit habit_;
    dice dice_;
    redis_store store_;
    std::vector<peer> peers_;
    std::deque<request> requests_;
    std::deque<std::size_t> late_;
    directory::judge judge_{scripts_, store_};
    // The knowledge of the users: permits with their pools, the tokens of permits, units that were taken for good, and
    // grants of sessions.
    std::vector<std::pair<std::size_t, std::string>> permits_;
    std::map<std::string, std::string> fences_;
    std::vector<std::tuple<std::size_t, std::int64_t, std::string>> taken_;
    std::vector<grant> grants_;
};

constexpr int steps = 400;

/// Runs one history. Returns the broken promise.
std::string find_directory_violation(script_engine& scripts, std::uint64_t seed,
                                     habit clients = habit::careful)
{
    world w(scripts, seed, clients);
    for (int i = 0; i < steps && w.judge().violation.empty(); ++i)
        w.step();
    if (w.judge().violation.empty())
        w.settle();
    return w.judge().violation;
}

BOOST_AUTO_TEST_SUITE(redis_directory_simulation)

BOOST_AUTO_TEST_CASE(histories)
{
    script_engine scripts;
    run_seeds(simulations_run_in_full() ? 300 : 60, [&](std::uint64_t seed)
              { BOOST_TEST(find_directory_violation(scripts, seed) == ""); });
}

// Otherwise, the histories would show nothing.
BOOST_AUTO_TEST_CASE(each_deed_occurs)
{
    script_engine scripts;
    std::map<deed, std::size_t> done;
    std::size_t unknown = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed)
    {
        world w(scripts, seed);
        for (int i = 0; i < steps; ++i)
            w.step();
        for (const auto& [what, count] : w.judge().done)
            done[what] += count;
        unknown += w.unknown;
    }
    for (unsigned i = 0; i < number_of_deeds; ++i)
        BOOST_TEST((static_cast<deed>(i) == deed::acquire || done[static_cast<deed>(i)] > 0U),
                   "nobody ever did " << i);
    BOOST_TEST(unknown > 0U);
}

// --- safeguards ---------------------------------------------------------------------------------

/// A safeguard of the scripts or of the clients.
struct directory_safeguard : safeguard
{
    /// The clients without it.
    habit clients = habit::careful;
};

const std::vector<directory_safeguard>& all_safeguards()
{
    static const std::vector<directory_safeguard> list{
        {{"a semaphore is created once by each call",
          {{"pool_enlist", "if s.fresh and not is_repeated() then", "if s.fresh then"}},
          "a semaphore came or went",
          9}},
        {{"a semaphore is removed once by each call",
          {{"pool_delist", "if repeated then return 'ok' end", ""}},
          "a semaphore came or went",
          1}},
        {{"units are added once by each call",
          {{"pool_supply", "if not is_repeated() then", "if true then"}},
          "units, and should be",
          1}},
        {{"units are taken once by each call",
          {{"pool_draw", "local taken_at = is_repeated()", "local taken_at"}},
          "units, and should be",
          1}},
        {{"a permit is renewed once by each call",
          {{"pool_permit", "  if not is_repeated() then\n", "  if true then\n"}},
          "the lease of permit",
          25}},
        {{"units return only to the semaphore from which they were taken",
          {{"pool_supply", "if fence and s.born > fence then return 'missing' end", ""}},
          "was confirmed that was not executed",
          0}},
        {{"the clock of a semaphore is above that of the former one",
          {{"pool_enlist", "if shift > 0 then", "if false then"}},
          "a new semaphore has the tokens of the former one",
          1}},
        {{"waiters learn that their semaphore is removed",
          {{"pool_delist", "for _, id in ipairs(redis.call('ZRANGE', s.queue, 0, -1)) do",
            "for _, id in ipairs({}) do"}},
          "a waiter was not informed",
          7}},
        {{"a released permit has no units",
          {{"pool_permit", "  drop(s, id, units)\n", ""}},
          "has its units after its end",
          1}},
        {{"the refusal of a repeated call is no outcome", {}, "after its answer", 8},
         habit::believes_refusals},
        {{"the server remembers a repeated call", {}, "a semaphore came or went", 2745},
         habit::forgets_copies},
    };
    return list;
}

BOOST_DATA_TEST_CASE(each_safeguard_is_necessary, all_safeguards())
{
    script_engine weakened(sample.scripts);
    script_engine whole;
    expect_necessary(
        sample, [&](std::uint64_t seed)
        { return find_directory_violation(weakened, seed, sample.clients); },
        [&](std::uint64_t seed) { return find_directory_violation(whole, seed); });
}

// --- sessions that wait -------------------------------------------------------------------------

// The clients are those of sessions. They wait, send nudges, renew their leases, crash, and pass their units to permits.
// Users take, renew and release permits over the same connections.

simulation_options with_sessions(std::uint64_t seed)
{
    simulation_options options;
    options.pool_capacity = 4;
    options.directory = true;
    options.removals = seed % 4 == 0;
    options.use = seed % 5 < 2 ? pool_use::supplies : pool_use::shares;
    options.equal_leases = seed / 3 % 2 == 0;
    return with_crashes(options, seed);
}

const std::uint64_t portion = simulations_run_in_full() ? 10 : 1;

// A waiter receives its units as soon as they are released, or the first lease ends, even if another client has made that
// lease shorter.
BOOST_AUTO_TEST_CASE(histories_with_crashes)
{
    script_engine scripts;
    run_seeds(40 * portion, [&](std::uint64_t seed)
              { BOOST_TEST(find_violation(scripts, with_sessions(seed)) == ""); });
}

BOOST_AUTO_TEST_CASE(histories_with_faults)
{
    script_engine scripts;
    run_seeds(20 * portion,
              [&](std::uint64_t seed)
              {
                  simulation_options options = with_sessions(seed);
                  options.clients = 0;
                  options.faults = all_faults();
                  options.most_faults = 8;
                  BOOST_TEST(find_violation(scripts, options) == "");
              });
}

simulation_options without_faults(std::uint64_t seed)
{
    simulation_options options = with_sessions(seed);
    options.most_faults = 0;
    return options;
}

// If a script leaves work, its caller sends the next command at once. A session that crashes before leaves it to the
// nudges of the others.
BOOST_AUTO_TEST_CASE(histories_of_scripts_that_do_little)
{
    script_engine scripts({{"pool_prologue", "local at_once = 64", "local at_once = 1"}});
    run_seeds(20 * portion, [&](std::uint64_t seed)
              { BOOST_TEST(find_violation(scripts, without_faults(seed)) == ""); });
}

/// Without these, a waiter waits too long.
const std::vector<safeguard>& all_wake_ups()
{
    static const std::vector<safeguard> list{
        {"waiters learn of an earlier deadline",
         {{"pool_prologue", "if not informed[id] then", "if false then"}},
         "no waiter was informed",
         1},
        {"a permit may have the first deadline",
         {{"pool_prologue",
           "redis.call('ZADD', s.permits, text(fence), id)\n"
           "  note_deadline(s, s.now + lease * 1000)",
           "redis.call('ZADD', s.permits, text(fence), id)"}},
         "no waiter was informed",
         11},
        {"a grant may have the first deadline",
         {{"pool_prologue",
           "hold(s, id, units, s.fence, 0, s.now + s.claim * 1000)\n"
           "  note_deadline(s, s.now + s.claim * 1000)",
           "hold(s, id, units, s.fence, 0, s.now + s.claim * 1000)"}},
         "no waiter was informed",
         137},
        {"a renewal may make the first deadline earlier",
         {{"pool_permit", "s.ended = ends", "s.ended = 0"}},
         "a waiter is left waiting",
         19},
        {"a permit may end before the grant whose units it received",
         {{"pool_release", "s.ended = ends", "s.ended = 0"}},
         "no waiter was informed",
         11},
        {"waiters send a nudge when the first lease ends",
         {{"pool_prologue", "tonumber(first or s.now + lease * 1000)", "s.now + lease * 1000"}},
         "no waiter was informed",
         2},
        {"a nudge that serves its waiter names the first deadline",
         {{"pool_nudge", "s.head and text(next_nudge(s, lease))", "nil"}},
         "a waiter is left waiting",
         9391},
        {"permits expire",
         {{"pool_prologue", "    drop(s, id, units or 0)\n    local has",
           "    if not is_permit(id) then drop(s, id, units or 0) end\n    local has"}},
         "no waiter was informed",
         1},
        {"waiters learn that their semaphore is removed",
         {{"pool_delist", "for _, id in ipairs(redis.call('ZRANGE', s.queue, 0, -1)) do",
           "for _, id in ipairs({}) do"}},
         "the server does not know the waiter",
         8},
        {"all waiters learn that their semaphore is removed",
         {{"pool_delist", "redis.call('ZRANGE', s.queue, 0, -1)",
           "redis.call('ZRANGE', s.queue, 1, -1)"}},
         "the server does not know the waiter",
         8},
    };
    return list;
}

BOOST_DATA_TEST_CASE(each_wake_up_is_necessary, all_wake_ups())
{
    script_engine weakened(sample.scripts);
    script_engine whole;
    expect_necessary(
        sample,
        [&](std::uint64_t seed) { return simulate(weakened, with_sessions(seed)).violation; },
        [&](std::uint64_t seed) { return find_violation(whole, with_sessions(seed)); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

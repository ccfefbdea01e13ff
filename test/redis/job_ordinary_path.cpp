// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/job_scene.hpp"
#include "support/random_runs.hpp"

// The ordinary paths of a job queue's scripts have the same effects as the full scripts: the same random calls, with
// and without these paths, have the same answers and messages, and leave the same contents. TURNSTILE_RANDOM_RUNS is
// the number of sequences of calls that are compared.

namespace turnstile::test {
namespace {

using words = job_scene::words;

/// Scripts that count how often they continue behind the ordinary path.
std::vector<script_patch> counting()
{
    const std::string mark = "-- common.lua and prologue.lua stand here\n";
    const std::string count = "redis.call('HINCRBY', 'in full', 'times', '1')\n" + mark;
    return {{"jobs_push", mark, count}, {"jobs_next", mark, count}};
}

/// Scripts without ordinary paths.
std::vector<script_patch> weakened()
{
    auto patches = counting();
    for (const char* script : {"jobs_push", "jobs_next"})
        patches.push_back({script, "if last and ", "if false and "});
    return patches;
}

/// A queue twice: the scripts of one of them have no ordinary paths.
class twins
{
public:
    /// Makes a call on both, and compares.
    words call(const std::string& script, const words& arguments)
    {
        const words answer = ordinary_.call(script, arguments);
        BOOST_TEST(answer == full_.call(script, arguments), boost::test_tools::per_element());
        BOOST_TEST((ordinary_.store.published == full_.store.published));
        BOOST_TEST(contents(ordinary_) == contents(full_), boost::test_tools::per_element());
        return answer;
    }

    /// Changes both.
    template <class Change>
    void each(Change change)
    {
        change(ordinary_);
        change(full_);
    }

    [[nodiscard]] const job_scene& look() const { return ordinary_; }
    [[nodiscard]] int ordinary() const { return in_full(full_) - in_full(ordinary_); }
    [[nodiscard]] int in_full() const { return in_full(ordinary_); }

private:
    static words contents(job_scene& scene)
    {
        words result;
        const auto add = [&](const words& command)
        {
            for (const std::string& each : scene.store.run(command).leaves())
                result.push_back(each);
            result.emplace_back();
        };
        for (const char* each : {"jobs", "jobs{jobs}", "jobs{names}", "jobs{notes}"})
            add({"HGETALL", each});
        for (const char* each : {"1", "2", "3"})
            add({"LRANGE", std::string("jobs{ready}") + each, "0", "-1"});
        for (const char* each :
             {"{delayed}", "{active}", "{dead}", "{idle}", "{windows}", "{lost}"})
            add({"ZRANGE", std::string("jobs") + each, "0", "-1", "WITHSCORES"});
        return result;
    }

    static int in_full(const job_scene& scene)
    {
        const auto* count = scene.store.hash("in full");
        return count != nullptr ? std::stoi(count->at("times")) : 0;
    }

    job_scene ordinary_{counting()};
    job_scene full_{weakened()};
};

/// Random calls on both queues, as clients make them and a few that they do not make.
class caller
{
public:
    caller(twins& queues, dice& choice)
        : queues_(queues)
        , choice_(choice)
        , is_busy_(choice.coin())
        , rare_(choice.coin() ? 10 : 100)
    {
    }

    void next()
    {
        pass();
        if (is_rare())
            return disturb();
        // In each sequence, mostly jobs or mostly workers wait.
        switch (choice_.below(6))
        {
        case 0:
        case 1:
            return push();
        case 2:
            return is_busy_ ? push() : ask();
        case 3:
            return finish();
        default:
            return ask();
        }
    }

private:
    bool is_rare() { return choice_.below(rare_) == 0; }

    void push()
    {
        const std::string level = std::to_string(1 + choice_.below(3));
        std::string name;
        std::string record = level;
        if (choice_.below(4) == 0)
        {
            name = is_rare() ? "n" : "";
            const std::string timeout = choice_.coin() ? "0" : "7000";
            record += ",2,100,200," + timeout + ',' + std::to_string(name.size());
        }
        record += ' ' + name + (is_rare() ? std::string(5000, 'x') : "x");
        const std::string delay = is_rare() ? "50" : "0";
        queues_.call("push", {"w:", record, level, delay, name, is_rare() ? "1000" : "0"});
    }

    void ask()
    {
        const std::string worker =
            choice_.one_of(sessions) + '.' + std::to_string(++last_) + '/' + choice_.one_of(leases);
        const std::string ticket = is_rare() ? std::to_string(queues_.look().store.clock - 9) : "0";
        const std::string ended = choice_.below(3) == 0 ? "" : attempt();
        const std::string how = is_rare() ? "again" : "first";
        const words answer =
            queues_.call("next", {"w:", worker, ticket, ended, is_rare() ? "1" : "", how});
        if (answer.size() == 3)
            attempts_.push_back(answer[1]);
        for (const auto& [channel, text] : queues_.look().store.published)
            remember(text);
    }

    void finish()
    {
        static const words ends{"finish", "finish", "f", "a", "r", "b"};
        queues_.call("end", {"w:", attempt(), choice_.one_of(ends), "1", "first", "why"});
    }

    /// The attempt that a message grants.
    void remember(const std::string& text)
    {
        if (job_scene::word(text, 2) != "grant")
            return;
        std::string granted = job_scene::word(text, 5);
        for (int i = 6; i < 11; ++i)
            granted += ' ' + job_scene::word(text, i);
        attempts_.push_back(granted);
    }

    /// An attempt that was started. Sometimes it is used again later.
    std::string attempt()
    {
        for (const auto& [channel, text] : queues_.look().store.published)
            remember(text);
        if (attempts_.empty() || is_rare())
            return "17 18 1 -- 0 a#1.1/15000";
        const std::size_t which = choice_.below(static_cast<unsigned>(attempts_.size()));
        std::string result = attempts_[which];
        if (!is_rare())
            attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(which));
        return result;
    }

    /// A random disturbance: a fault of the server, or an unusual call.
    void disturb()
    {
        switch (choice_.below(7))
        {
        case 0:
        {
            const bool listens = choice_.coin();
            queues_.each([&](job_scene& s) { s.store.subscribers["w:a#1"] = listens ? 1 : 0; });
            return;
        }
        case 1:
        {
            const std::int64_t back = choice_.below(choice_.coin() ? 1000 : 2'000'000);
            queues_.each([&](job_scene& s) { s.store.clock -= back; });
            return;
        }
        case 2:
            queues_.call("manage", {"w:", "limit", choice_.coin() ? "2" : "0", "1000"});
            return;
        case 3:
            queues_.call("manage", {"w:", choice_.coin() ? "pause" : "resume", "0", "0"});
            return;
        case 4:
            queues_.call("renew", {"w:", "15000"});
            return;
        case 5:
            queues_.call("cancel", {"w:", "a#1." + std::to_string(last_) + "/15000"});
            return;
        default:
        {
            static const words parts{"{jobs}", "{idle}", "{ready}2", "{active}"};
            const std::string key = "jobs" + choice_.one_of(parts);
            queues_.each([&](job_scene& s) { s.store.run(words{"DEL", key}); });
        }
        }
    }

    /// Mostly some microseconds; sometimes so long that leases expire.
    void pass()
    {
        std::int64_t span = choice_.below(choice_.below(8) == 0 ? 2 : 1000);
        if (is_rare())
            span = choice_.below(choice_.coin() ? 200'000 : 20'000'000);
        queues_.each([&](job_scene& s) { s.store.clock += span; });
    }

    const words sessions{"a#1", "b#1", "x#1"};
    const words leases{"15000", "15000", "3000"};

    twins& queues_;
    dice& choice_;
    bool is_busy_;
    unsigned rare_;
    int last_ = 0;
    words attempts_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_job_ordinary_path)

BOOST_AUTO_TEST_CASE(job_calls_have_the_same_effects_with_and_without_the_ordinary_path)
{
    int ordinary = 0;
    int in_full = 0;
    run_seeds(40,
              [&](std::uint64_t seed)
              {
                  dice choice(seed);
                  twins queues;
                  caller clients(queues, choice);
                  for (int i = 0; i < 300 && all_is_well(); ++i)
                      BOOST_TEST_CONTEXT("call " << i)
                  clients.next();
                  ordinary += queues.ordinary();
                  in_full += queues.in_full();
              });
    // Otherwise, the comparison would show nothing.
    BOOST_TEST(ordinary > 0);
    BOOST_TEST(in_full > 0);
    BOOST_TEST_MESSAGE(ordinary << " calls were ordinary, " << in_full << " went on in full");
}

// The queue's clock stays ahead of the server's.
BOOST_AUTO_TEST_CASE(calls_are_ordinary_again_after_the_clock_was_set_back)
{
    twins queues;
    std::string token = "0";
    const auto pass = [&](std::int64_t span)
    { queues.each([&](job_scene& s) { s.store.clock += span; }); };
    const auto push = [&] { queues.call("push", {"w:", "2 x", "2", "0", "", "0"}); };
    const auto next = [&](const std::string& attempt)
    { return queues.call("next", {"w:", "a#1.1/15000", "0", attempt, "", "first"}); };
    push();
    pass(-1'000'000);
    // Notices that the clock was set back.
    push();
    const int in_full = queues.in_full();
    std::string attempt;
    for (int i = 0; i < 2; ++i)
    {
        pass(10);
        const words started = next(attempt);
        BOOST_TEST_REQUIRE(started.size() == 3U);
        attempt = started[1];
        BOOST_TEST(job_scene::word(attempt, 1) > token);
        token = job_scene::word(attempt, 1);
        pass(10);
        push();
    }
    for (int i = 0; i < 2; ++i)
    {
        pass(10);
        attempt = next(attempt).at(1);
    }
    pass(10);
    BOOST_TEST(job_scene::word(next(attempt).at(0), 0) == "parked");
    pass(10);
    push();
    TEST_WORDS(queues.look().heard(), "w:a#1 grant 2 x");
    BOOST_TEST(queues.in_full() == in_full);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace turnstile::test

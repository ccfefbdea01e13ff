// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "support/job_scene.hpp"

// The scripts of a job queue if the server refuses one of their commands. A user may lose a permission at any time.

using turnstile::test::job_scene;
using namespace std::chrono_literals;
using words = job_scene::words;

namespace {

/// All commands that the scripts call, but for those with which they read the state and the clock.
const words commands{"HDEL",   "HEXISTS", "HLEN",          "HMGET",  "HSET",
                     "LLEN",   "LPOP",    "LPUSH",         "LRANGE", "PUBLISH",
                     "PUBSUB", "RPUSH",   "ZADD",          "ZCARD",  "ZPOPMIN",
                     "ZRANGE", "ZREM",    "ZRANGEBYSCORE", "ZSCORE", "ZREMRANGEBYSCORE"};

/// Starts and finishes all jobs. Dead letters are retried, and the leases and delays of other jobs end before.
void finish_all(job_scene& scene)
{
    scene.cancel("b#1.1");
    const words dead = scene.list("dead");
    for (std::size_t i = 0; i < dead.size(); i += 4)
        scene.manage("retry", job_scene::word(dead[i], 0));
    for (int i = 0; i < 10; ++i)
    {
        scene.pass(100s);
        if (scene.next("b#1.2") == "job")
            scene.finish(scene.attempt);
        else
            scene.cancel("b#1.2");
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(redis_job_refusals)

// A user may lose a permission while a script moves a job from one place to another.
BOOST_AUTO_TEST_CASE(a_refused_command_loses_no_job)
{
    struct situation
    {
        words call;
        void (*prepare)(job_scene&) = [](job_scene&) {};
    };
    const auto end = [](const std::string& what)
    { return words{"end", "w:", "ATTEMPT", what, "", "first", ""}; };
    const words next{"next", "w:", "a#1.9/15000", "0", "", "", "first", ""};
    const auto wait = [](job_scene& scene)
    {
        scene.next("a#1.2");
        scene.next("b#1.1");
        scene.pass(1ms);
    };
    const std::vector<situation> all{
        {next},
        // The rest of the script starts the job.
        {next, [](job_scene& scene) { scene.manage("limit", "9", "1000"); }},
        {end("a")},
        {end("r")},
        {end("f")},
        {end("b")},
        {{"renew", "w:", "15000"},
         [](job_scene& scene)
         {
             scene.push_record("2,5,1000,1000,1000,0 x");
             scene.push("y", '2', 1000);
             scene.push("z", '2', 1000);
             scene.next("a#1.2");
             scene.next("a#1.3");
             scene.next("b#1.1");
             scene.pass(16s);
         }},
        {{"manage", "w:", "retry", "JOB", "0"},
         [](job_scene& scene) { scene.finish(scene.attempt, "b"); }},
        {end("finish")},
        {{"end", "w:", "ATTEMPT", "f", "1", "first", "error"}},
        {{"next", "w:", "a#1.9/15000", "0", "ATTEMPT", "1", "first", ""}},
        {{"next", "w:", "a#1.9/15000", "0", "ATTEMPT", "1", "first", "no handler"}},
        // No job is left to start.
        {{"next", "w:", "a#1.9/15000", "0", "ATTEMPT", "1", "first", ""},
         [](job_scene& scene)
         {
             const std::string first = scene.attempt;
             scene.next("a#1.2");
             scene.finish(scene.attempt);
             scene.pass(1ms);
             scene.attempt = first;
         }},
        {{"push", "w:", "2 z", "2", "0", "", "0"}},
        {{"push", "w:", "2 z", "2", "0", "", "0"}, wait},
        {{"push", "w:", "2 z", "2", "1", "", "0"}, wait},
        {{"push", "w:", "2,5,1000,60000,0,1 nz", "2", "0", "n", "0"}, wait},
    };
    for (const std::string& refused : commands)
        for (std::size_t i = 0; i < all.size(); ++i)
            BOOST_TEST_CONTEXT(refused << ", situation " << i)
            {
                job_scene scene;
                scene.push("first");
                // Otherwise the clock shows no new number, and the ordinary path is not taken.
                scene.pass(1ms);
                scene.push("second");
                scene.pass(1ms);
                scene.next("a#1.1");
                scene.pass(1ms);
                words arguments = all[i].call;
                for (std::string& each : arguments)
                    if (each == "ATTEMPT")
                        each = scene.attempt;
                    else if (each == "JOB")
                        each = job_scene::word(scene.attempt, 0);
                all[i].prepare(scene);
                scene.store.refused_command = refused;
                scene.engine.run(scene.store, "jobs_" + arguments[0], scene.keys,
                                 {arguments.begin() + 1, arguments.end()});
                scene.store.refused_command.clear();
                finish_all(scene);
                BOOST_TEST(scene.store.hash("jobs{jobs}") == nullptr);
                BOOST_TEST(scene.store.hash("jobs{notes}") == nullptr);
                BOOST_TEST(scene.counts() == "0000");
            }
}

BOOST_AUTO_TEST_CASE(a_refused_push_leaves_no_worker_behind)
{
    for (const std::string& refused : commands)
        for (const int others : {0, 1})
            for (const char* delay : {"0", "1"})
                BOOST_TEST_CONTEXT(refused << ", " << others << " more workers, delay " << delay)
                {
                    job_scene scene;
                    scene.next("a#1.1");
                    if (others > 0)
                        scene.next("b#1.1");
                    scene.pass(1ms);
                    scene.store.published.clear();
                    scene.store.refused_command = refused;
                    scene.engine.run(scene.store, "jobs_push", scene.keys,
                                     {"w:", "2 x", "2", delay, "", "0"});
                    scene.store.refused_command.clear();
                    words heard = scene.heard();
                    scene.pass(1ms);
                    scene.push("y");
                    const words more = scene.heard();
                    heard.insert(heard.end(), more.begin(), more.end());
                    // A session whose worker was dropped lets it wait again.
                    BOOST_TEST(std::ranges::any_of(heard,
                                                   [](const std::string& each)
                                                   {
                                                       return each.starts_with("w:a#1 grant") ||
                                                              each.starts_with("w:a#1 dropped");
                                                   }));
                }
}

BOOST_AUTO_TEST_SUITE_END()

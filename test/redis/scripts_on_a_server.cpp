// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "redis/transport/scripts.hpp"
#include "support/random_runs.hpp"
#include "support/redis_server.hpp"
#include "support/resp_connection.hpp"
#include "support/script_scene.hpp"

// The same calls of the same scripts on a real server and on the simulated one: replies, messages and keys are
// equal. TURNSTILE_RANDOM_RUNS is the number of sequences of calls.

namespace turnstile::test {
namespace {

using words = std::vector<std::string>;

// The keys of a monitor, so that there is a state, too. Some scripts do not read it.
const words lock_keys{"{t}lock", "{t}state"};
const words sorted_sets{"{t}lock{queue}", "{t}lock{done}", "{t}lock{sleepers}c",
                        "{t}lock{conditions}"};
const words channels{"w:a#1", "w:a#2", "w:b#1"};

struct call
{
    std::string script;
    words arguments;
};

/// Random calls: those that clients make, and those that they must not make.
class caller
{
public:
    explicit caller(std::uint64_t seed)
        : dice_(seed)
    {
    }

    call next()
    {
        words options{"15000", dice_.coin() ? "4000" : "2000", "60000"};
        // The first calls, whose effects are unlikely at random: a release executes a waiting transaction, another
        // transaction has an unmet requirement, and a third one waits on its condition.
        call result;
        switch (calls_++)
        {
        case 0:
            result = {"acquire", {"w:", "a#1.1", "queue", "0"}};
            append(result, options);
            result.arguments.emplace_back("0");
            return result;
        case 1:
            result = {"transact", {"w:", "b#1.1+", "1"}};
            append(result, options);
            append(result, {"9000000000000000", "0", "a#0.1", "0", "", "0"});
            append(result, {"add", "f", "=40", "=0", "-100", "100"});
            return result;
        case 2:
            result = {"release", {"w:", owner_, owned_, "a#0.1"}};
            append(result, options);
            return result;
        case 3:
        case 4:
            result = {"transact", {"w:", "b#1.2+", "1"}};
            append(result, options);
            append(result, {"9000000000000000", "0", "a#0.2", "0", calls_ == 4 ? "" : "c", "0"});
            append(result, {"=", "f", "=5", "=5", "", ""});
            return result;
        default:
            break;
        }
        if (dice_.below(60) == 0)
            options[1] += ' ' + number() + " 9000000000000000";
        const std::string who = id();
        switch (dice_.below(14))
        {
        case 0:
        case 1:
        case 2:
            result = {"acquire", {"w:", who, dice_.below(4) == 0 ? "try" : number()}};
            append(result, options);
            result.arguments.push_back(number());
            return result;
        case 3:
        case 4:
            result = {"release", {"w:", who, fence(), dice_.coin() ? "" : "a#0.1"}};
            break;
        case 5:
            result = {"cancel", {"w:", who + ',' + id() + (dice_.coin() ? "+" : "")}};
            append(result, options);
            result.arguments.push_back(condition());
            if (dice_.coin())
                append(result, {"a#0.1", number()});
            return result;
        case 6:
            if (!sleeper_.empty() && dice_.coin())
                result = {"nudge", {"w:", sleeper_}};
            else
                result = {"nudge", {"w:", dice_.below(4) == 0 ? "" : who}};
            append(result, options);
            append(result, {"w:a#1", condition()});
            return result;
        case 7:
            if (dice_.coin())
            {
                result = {"renew", {"w:", who, fence()}};
                break;
            }
            if (dice_.coin())
                result = {"resync", {"w:", who + ',' + id(), id(), dice_.coin() ? "0" : fence()}};
            else
                result = {"resync", {"w:", who + '+', who + '+', dice_.coin() ? "0" : fence()}};
            append(result, options);
            result.arguments.push_back(condition());
            return result;
        case 8:
            // Seldom, another client than the holder sends it.
            if (dice_.below(4) == 0 || owner_.empty())
                result = {"commit", {"w:", who, fence(), "a#0.1"}};
            else
                result = {"commit", {"w:", owner_, owned_, "a#0.1"}};
            append(result, options);
            append(result, {dice_.coin() ? id() : "", "c", "1", "d", one_or_all()});
            append(result, {"f", dice_.coin() ? "" : (dice_.coin() ? "=5" : "=1 2:\n" + who)});
            return result;
        case 9:
            result = {"notify", {"w:", dice_.coin() ? "c" : "d", one_or_all()}};
            append(result, options);
            result.arguments.push_back(dice_.below(4) == 0 ? fence() : "");
            return result;
        case 10:
            if (dice_.coin() || owner_.empty())
                result = {"fetch", {"w:", who, fence()}};
            else
                result = {"fetch", {"w:", owner_, owned_}};
            break;
        case 11:
        case 12:
            result = {"transact", {"w:", who + '+', dice_.coin() ? "0" : "1"}};
            append(result, options);
            // The copy may be late, or not the first one.
            append(result, {dice_.below(8) == 0 ? number() : "9000000000000000", number()});
            append(result, {dice_.coin() ? "a#0.1" : "a#0.2", number(), condition(), "1",
                            dice_.coin() ? "c" : "d", one_or_all()});
            // A real hash has its fields in another order than the simulated one, so the state has only one.
            if (dice_.coin())
                append(result, {dice_.coin() ? "=" : "<>", "f", "=5", "=5", "", ""});
            else
                append(result, {"add", "f", dice_.coin() ? "=40" : "=-7", "=0", "-100", "100"});
            append(result, {dice_.coin() ? "<" : ">=", "f", "=20", "=0", "-100", "100"});
            if (dice_.below(4) == 0)
                append(result, {"set", "f", dice_.coin() ? "" : "=1", "", "", ""});
            return result;
        default:
            result = {"requeue", {"w:", who + ',' + id(), who}};
            append(result, options);
            result.arguments.emplace_back("c");
            return result;
        }
        append(result, options);
        return result;
    }

    void heard(const call& asked, const redis_reply& reply)
    {
        if (const words answer = words_of(reply); asked.script == "acquire" && answer[0] == "own")
        {
            owner_ = asked.arguments[1];
            owned_ = answer[2];
        }
        else if (asked.script == "commit" && answer[0] == "released")
            sleeper_ = asked.arguments[7];
        else if (asked.script == "transact" && answer[0] == "asleep")
            sleeper_ = asked.arguments[1];
        for (const std::string& each : words_of(reply))
            if (each.size() == 16 && each.find_first_not_of("0123456789") == each.npos)
                numbers_.push_back(each);
    }

private:
    static void append(call& to, const words& options)
    {
        to.arguments.insert(to.arguments.end(), options.begin(), options.end());
    }

    // The connections a#1, a#2 and b#1 listen, c#1 does not.
    std::string id()
    {
        const words who{"a#1.", "a#2.", "b#1.", "c#1."};
        return dice_.one_of(who) + std::to_string(1 + dice_.below(3));
    }
    std::string condition() { return dice_.coin() ? "" : "c"; }
    std::string one_or_all() { return dice_.coin() ? "one" : "all"; }
    std::string number() { return dice_.coin() ? "0" : fence(); }
    std::string fence()
    {
        if (numbers_.empty())
            return "1";
        return numbers_[numbers_.size() - 1 -
                        dice_.below(
                            static_cast<unsigned>(std::min<std::size_t>(numbers_.size(), 12)))];
    }

    dice dice_;
    unsigned calls_ = 0;
    words numbers_;
    // The last holder, and the token of its grant.
    std::string owner_;
    std::string owned_;
    // The last attempt that began to wait for a condition.
    std::string sleeper_;
};

/// The time of the server's clock, in microseconds.
std::int64_t time_of(resp_connection& server)
{
    const words both = server.ask({"TIME"}).leaves();
    return std::stoll(both[0]) * 1'000'000 + std::stoll(both[1]);
}

/// The contents of all keys.
words contents(resp_connection& server)
{
    words result;
    for (const std::string& key : {lock_keys[0], lock_keys[1]})
    {
        std::map<std::string, std::string> fields;
        const words hash = server.ask({"HGETALL", key}).leaves();
        for (std::size_t i = 0; i + 1 < hash.size(); i += 2)
            fields[hash[i]] = hash[i + 1];
        for (const auto& [name, value] : fields)
            result.emplace_back(name).append("=").append(value);
    }
    for (const std::string& key : sorted_sets)
        for (const std::string& each :
             server.ask({"ZRANGE", key, "0", "-1", "WITHSCORES"}).leaves())
            result.push_back(each);
    return result;
}

words contents(redis_store& store)
{
    words result;
    for (const std::string& key : {lock_keys[0], lock_keys[1]})
        if (const auto* hash = store.hash(key))
            for (const auto& [name, value] : *hash)
                result.emplace_back(name).append("=").append(value);
    for (const std::string& key : sorted_sets)
        if (const auto* set = store.zset(key))
            for (const auto& [score, member] : set->order)
            {
                result.push_back(member);
                result.push_back(store.run(words{"ZSCORE", key, member}).text);
            }
    return result;
}

BOOST_AUTO_TEST_CASE(the_scripts_that_are_tested_are_those_that_are_built_in)
{
    const auto embedded = redis::detail::scripts();
    BOOST_TEST(embedded.size() == script_names().size());
    for (const auto& each : embedded)
        BOOST_TEST(each.text == script_text(each.name), each.name);
}

BOOST_AUTO_TEST_CASE(the_simulated_server_answers_like_a_real_one)
{
    const redis_server server;
    resp_connection real(server.unix_socket().string());
    resp_connection listener(server.unix_socket().string());
    for (const std::string& each : channels)
        static_cast<void>(listener.ask({"SUBSCRIBE", each}));
    std::map<std::string, std::string> digests;
    for (const std::string& name : script_names())
        digests[name] = real.ask({"SCRIPT", "LOAD", script_text(name)}).text;

    script_engine engine;
    std::map<std::string, unsigned> answers;
    unsigned states = 0;
    unsigned waited = 0;
    run_seeds(50,
              [&](std::uint64_t seed)
              {
                  static_cast<void>(real.ask({"FLUSHALL"}));
                  redis_store made_up;
                  for (const std::string& each : channels)
                      made_up.subscribers[each] = 1;
                  // The state has been written before and the lock is free, so the server can execute transactions.
                  if (seed % 2 == 0)
                  {
                      const words write{"HSET", lock_keys[1], "f", "20"};
                      static_cast<void>(real.ask(write));
                      static_cast<void>(made_up.run(write));
                  }
                  caller next(seed);
                  for (int i = 0; i < 60 && all_is_well(); ++i)
                  {
                      const call ask = next.next();
                      const bool serves_batches = ask.script == "renew" || ask.script == "resync";
                      const words keys(lock_keys.begin(), lock_keys.end() - serves_batches);
                      words evalsha{"EVALSHA", digests[ask.script], std::to_string(keys.size())};
                      evalsha.insert(evalsha.end(), keys.begin(), keys.end());
                      evalsha.insert(evalsha.end(), ask.arguments.begin(), ask.arguments.end());
                      const redis_reply reply = real.ask(evalsha);
                      BOOST_TEST_REQUIRE(!reply.is_error(), reply.text);
                      next.heard(ask, reply);
                      ++answers[words_of(reply)[0]];
                      states += words_of(reply)[6].starts_with("1:f") ? 1 : 0;
                      // The simulated clock shows the time that the real one showed in the script.
                      made_up.clock = std::stoll(words_of(reply)[1]);
                      made_up.published.clear();
                      const redis_reply same = engine.run(made_up, ask.script, keys, ask.arguments);
                      BOOST_TEST_CONTEXT(ask.script << " in call " << i)
                      {
                          BOOST_TEST(to_string(same) == to_string(reply));
                          BOOST_TEST(contents(made_up) == contents(real),
                                     boost::test_tools::per_element());
                          waited += static_cast<unsigned>(std::ranges::count_if(
                              made_up.published, [](const auto& each)
                              { return each.second.starts_with("released "); }));
                          for (const auto& [channel, text] : made_up.published)
                              if (made_up.subscribers.contains(channel))
                                  BOOST_TEST(listener.read().leaves() ==
                                                 (words{"message", channel, text}),
                                             boost::test_tools::per_element());
                          for (const std::string& key : lock_keys)
                          {
                              const auto ttl = real.ask({"PTTL", key}).number;
                              const auto other = made_up.run(words{"PTTL", key}).number;
                              // The real clock has advanced since.
                              const auto late = (time_of(real) - made_up.clock) / 1000;
                              BOOST_TEST(std::abs(ttl - other) < 2000 + late, key);
                          }
                      }
                  }
              });
    // Each status has occurred, so the comparison covers it.
    for (const char* each : {"own", "queued", "busy", "gone", "released", "cancelled", "lost",
                             "asleep", "ok", "unmet", "unknown"})
        BOOST_TEST(answers[each] > 0U, each);
    BOOST_TEST(states > 0U);
    BOOST_TEST(waited > 0U);
}

/// Calls of the scripts of a job queue.
class job_caller
{
public:
    explicit job_caller(std::uint64_t seed)
        : dice_(seed)
    {
    }

    call next()
    {
        const std::string number = std::to_string(1 + dice_.below(9));
        const std::string worker =
            std::string(dice_.below(5) == 0 ? "x#1." : "a#1.") + number + "/1000";
        const std::string how = pick({"first", "again", "unsure"});
        switch (dice_.below(14))
        {
        case 0:
        case 1:
        case 2:
        {
            const std::string level = std::to_string(1 + dice_.below(3));
            const bool is_named = dice_.coin();
            const std::string options = is_named ? ",2,1,2,3,1 n" : ",3,0,0,0,0 ";
            return {"jobs_push",
                    {"w:", level + options + "p", level, dice_.below(3) == 0 ? "1" : "0",
                     is_named ? "n" : "", "2"}};
        }
        case 3:
        case 4:
        case 5:
            return {"jobs_next", {"w:", worker, "0", dice_.coin() ? attempt_ : "", "1", how}};
        case 6:
        case 7:
            return {"jobs_end",
                    {"w:", attempt_, pick({"finish", "f", "a", "r", "b"}), "1", how, "e"}};
        case 8:
            return {"jobs_cancel", {"w:", worker}};
        case 9:
            return {"jobs_renew", {"w:", "1000", attempt_, dice_.coin() ? "0.5" : ""}};
        case 10:
            return {"jobs_fetch", {"w:", attempt_}};
        case 11:
            return {"jobs_resync", {"w:", "a", number, dice_.coin() ? worker : ""}};
        case 12:
            return {"jobs_manage",
                    {"w:", pick({"pause", "resume", "limit", "retry", "drain", "purge"}),
                     dice_.coin() ? "0" : id_, "1"}};
        default:
            return {"jobs_list",
                    {"w:", pick({"counts", "waiting", "delayed", "active", "dead"}),
                     std::to_string(dice_.below(2)), "5"}};
        }
    }

    void heard(const call& asked, const redis_reply& reply)
    {
        const words leaves = reply.leaves();
        const std::string& first = leaves.at(0);
        if (asked.script == "jobs_push")
            id_ = first.substr(first.rfind(' ') + 1);
        if (first.starts_with("job "))
            attempt_ = leaves.at(1);
    }

private:
    std::string pick(words from) { return dice_.one_of(from); }

    dice dice_;
    std::string attempt_ = "1 1 1 -- 0 a#1.1/1000";
    std::string id_ = "1";
};

BOOST_AUTO_TEST_CASE(job_queues_behave_alike_on_the_simulated_server)
{
    const redis_server server;
    resp_connection real(server.unix_socket().string());
    resp_connection listener(server.unix_socket().string());
    static_cast<void>(listener.ask({"SUBSCRIBE", "w:a#1"}));
    std::map<std::string, std::string> digests;
    for (const std::string& name : script_names())
        if (name.starts_with("jobs_"))
            digests[name] = real.ask({"SCRIPT", "LOAD", script_text(name)}).text;
    script_engine engine;
    std::map<std::string, unsigned> answers;
    run_seeds(50,
              [&](std::uint64_t seed)
              {
                  static_cast<void>(real.ask({"FLUSHALL"}));
                  redis_store made_up;
                  made_up.subscribers["w:a#1"] = 1;
                  job_caller next(seed);
                  for (int i = 0; i < 100 && all_is_well(); ++i)
                  {
                      const call ask = next.next();
                      words evalsha{"EVALSHA", digests[ask.script], "1", "q"};
                      evalsha.insert(evalsha.end(), ask.arguments.begin(), ask.arguments.end());
                      const redis_reply reply = real.ask(evalsha);
                      BOOST_TEST_REQUIRE(!reply.is_error(), ask.script << ": " << reply.text);
                      next.heard(ask, reply);
                      const words first = words_of(redis_reply::of(reply.leaves()[0]));
                      ++answers[first[0]];
                      made_up.clock = std::stoll(first[1]);
                      made_up.published.clear();
                      const redis_reply same =
                          engine.run(made_up, ask.script, {"q"}, ask.arguments);
                      BOOST_TEST_CONTEXT(ask.script << " in call " << i)
                      {
                          BOOST_TEST(to_string(same) == to_string(reply));
                          BOOST_TEST(made_up.hash("q")->at("state") ==
                                     real.ask({"HGET", "q", "state"}).text);
                          for (const auto& [channel, text] : made_up.published)
                              if (made_up.subscribers.contains(channel))
                                  BOOST_TEST(listener.read().leaves() ==
                                                 (words{"message", channel, text}),
                                             boost::test_tools::per_element());
                      }
                  }
              });
    for (const char* each : {"pushed", "job", "parked", "ok", "lost", "unknown", "missing"})
        BOOST_TEST(answers[each] > 0U, each);
}

// On a real server, an error that a script has caught is a text.
BOOST_AUTO_TEST_CASE(a_lock_of_a_batch_fails_alone_on_a_real_server)
{
    const redis_server server;
    resp_connection real(server.unix_socket().string());
    const auto load = [&](const std::string& name)
    { return real.ask({"SCRIPT", "LOAD", script_text(name)}).text; };
    const std::string acquire = load("acquire");
    const std::string keep = load("contributions");
    words batch{"EVALSHA", keep, "3"};
    for (const std::string number : {"1", "2", "3"})
    {
        real.ask({"EVALSHA", acquire, "1", "lock" + number, "w:", "a#1.1", "0", "15000", "4000",
                  "60000", "0", "0"});
        batch.push_back("lock" + number);
    }
    batch.emplace_back("w:");
    for (int i = 0; i < 3; ++i)
        batch.insert(batch.end(), {"a/1 0 n c state", "15000", "15000", "4000", "60000"});
    real.ask({"ZADD", "lock2{bound}", "9000000000000000", "a/1 0 n c state"});
    const auto answers = [&]
    {
        words result;
        for (const std::string& each : real.ask(batch).leaves())
            result.push_back(each.substr(0, each.find(' ')));
        return result;
    };
    real.ask({"HSET", "lock1", "state", "2 damaged"});
    real.ask({"SET", "lock3{bound}", "x"});
    BOOST_TEST(answers() == (words{"damaged", "own", "wrongtype"}),
               boost::test_tools::per_element());
    // An error that has nothing to do with a lock is not hidden.
    real.ask({"ACL", "SETUSER", "default", "-zscore"});
    BOOST_TEST(real.ask(batch).is_error());
}

BOOST_AUTO_TEST_CASE(the_simulated_server_has_the_errors_of_a_real_one)
{
    const redis_server server;
    resp_connection real(server.unix_socket().string());
    redis_store made_up;
    for (const words& command : {words{"SET", "s", "x"},
                                 words{"HSET", "h", "a", "1", "b", "2"},
                                 words{"HSET", "h", "a", "3", "c", "4"},
                                 words{"ZADD", "z", "5", "m"},
                                 words{"ZADD", "z", "4.5", "n"},
                                 words{"ZADD", "z", "x", "n"},
                                 words{"ZADD", "z", "NX", "6", "m"},
                                 words{"ZADD", "z", "NX", "6", "o"},
                                 words{"ZADD", "s", "NX", "6", "o"},
                                 words{"HMGET", "h", "a", "q"},
                                 words{"HMGET", "none", "a"},
                                 words{"HGET", "h", "a"},
                                 words{"HLEN", "h"},
                                 words{"HLEN", "none"},
                                 words{"HLEN", "s"},
                                 words{"HGETALL", "h"},
                                 words{"HGETALL", "none"},
                                 words{"HGET", "h", "q"},
                                 words{"ZRANGE", "z", "0", "-1"},
                                 words{"ZRANGE", "z", "1", "5"},
                                 words{"ZRANGE", "z", "x", "5"},
                                 words{"ZSCORE", "z", "m"},
                                 words{"ZSCORE", "z", "n"},
                                 words{"ZSCORE", "z", "q"},
                                 words{"ZRANK", "z", "m"},
                                 words{"ZCARD", "z"},
                                 words{"ZCARD", "none"},
                                 words{"HSET", "z", "a", "1"},
                                 words{"ZADD", "h", "1", "a"},
                                 words{"ZADD", "s", "1", "a"},
                                 words{"HMGET", "s", "a"},
                                 words{"ZPOPMIN", "h"},
                                 words{"PEXPIRE", "z", "1000", "GT"},
                                 words{"PEXPIRE", "z", "100000", "NX"},
                                 words{"PEXPIRE", "z", "1000", "NX"},
                                 words{"PEXPIRE", "z", "1000", "GT"},
                                 words{"PEXPIRE", "z", "200000", "GT"},
                                 words{"PEXPIRE", "z", "x"},
                                 words{"PEXPIRE", "none", "5"},
                                 words{"PTTL", "h"},
                                 words{"PTTL", "none"},
                                 words{"PUBSUB", "NUMSUB", "c"},
                                 words{"PUBLISH", "c", "x"},
                                 words{"ZREMRANGEBYSCORE", "z", "-inf", "4.7"},
                                 words{"ZPOPMIN", "z"},
                                 words{"ZPOPMIN", "z"},
                                 words{"EXISTS", "z"},
                                 words{"HDEL", "h", "a", "q"},
                                 words{"HDEL", "h", "b", "c"},
                                 words{"EXISTS", "h"},
                                 words{"ZREM", "none", "x"},
                                 words{"RPUSH", "l", "b"},
                                 words{"LPUSH", "l", "a"},
                                 words{"RPUSH", "l", "c"},
                                 words{"RPUSH", "s", "c"},
                                 words{"LRANGE", "l", "1", "5"},
                                 words{"LRANGE", "l", "0", "1"},
                                 words{"LRANGE", "none", "0", "1"},
                                 words{"LLEN", "l"},
                                 words{"LPOP", "l"},
                                 words{"LPOP", "l", "5"},
                                 words{"LPOP", "l"},
                                 words{"EXISTS", "l"},
                                 words{"LLEN", "l"},
                                 words{"DEL", "s"},
                                 words{"DEL", "s"}})
        BOOST_TEST(to_string(made_up.run(command)) == to_string(real.ask(command)), command[0]);
    BOOST_CHECK_THROW(static_cast<void>(made_up.run(words{"SADD", "l", "x"})), unknown_command);
}

}  // namespace
}  // namespace turnstile::test

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis/protocol/protocol.hpp"
#include "redis/transport/scripts.hpp"
#include "support/driven_client.hpp"
#include "support/driven_gates.hpp"
#include "support/driven_jobs.hpp"
#include "support/random_runs.hpp"
#include "support/script_scene.hpp"

// The heads of the scripts agree with the commands of the client, and together the scripts behave like a plain list.
// TURNSTILE_RANDOM_RUNS is the number of random sequences of calls that are compared with the list.

namespace turnstile::test {
namespace {

// --- the heads ----------------------------------------------------------------------------------

/// The text of each point in the head of a script, by the name of the point.
std::map<std::string, std::string> head_of(std::string_view script)
{
    std::map<std::string, std::string> points;
    std::istringstream lines(script_file(script));
    std::string point;
    for (std::string line; std::getline(lines, line) && line.starts_with("--");)
    {
        if (line.starts_with("--            "))
        {
            points[point] += ' ' + line.substr(14);
            continue;
        }
        if (line.size() < 4)
            continue;
        const std::size_t end = line.find_first_of(" :", 3);
        point = line.substr(3, end - 3);
        const std::size_t text = line.find_first_not_of(" :", end);
        points[point] = text == std::string::npos ? "" : line.substr(text);
    }
    return points;
}

/// The number of elements of a list, without those in parentheses: in total, and for each lock.
std::pair<std::size_t, std::size_t> count(std::string list)
{
    for (std::size_t open = 0; (open = list.find('(')) != std::string::npos;)
        list.erase(open, list.find(')', open) + 1 - open);
    const std::size_t each = list.find("; for each");
    const auto items = [](std::string_view part)
    { return static_cast<std::size_t>(std::ranges::count(part, ',')) + 1; };
    if (each == std::string::npos)
        return {items(list), 0};
    const std::size_t colon = list.find(':', each);
    // KEYS are all for each lock: "lock, queue, done; for each of them".
    if (colon == std::string::npos)
        return {0, items(list.substr(0, each))};
    return {items(list.substr(0, each)), items(list.substr(colon))};
}

BOOST_AUTO_TEST_SUITE(redis_script_contracts)

BOOST_AUTO_TEST_CASE(each_script_has_a_complete_head)
{
    // Locks and pools each have a script for every operation but seven in total, and two more for operators.
    // Directories have eight, gates two, job queues nine, and connections three.
    BOOST_TEST(script_names().size() ==
               2 * (redis::detail::number_of_operations + 2) - 7 + 8 + 2 + 9 + 3);
    for (const std::string& name : script_names())
        BOOST_TEST_CONTEXT(name)
        {
            auto head = head_of(name);
            for (const char* point :
                 {"KEYS", "ARGV", "returns", "repeated", "wakes", "complexity", "flags"})
                BOOST_TEST(!head[point].empty(), point);
            BOOST_TEST((head["flags"] == "none" || head["flags"] == "allow-oom"));
            // Only a new waiter needs memory, or a state that grows. The waiters of a gate repeat
            // their question, and have one element for each connection.
            const bool grows = name.ends_with("acquire") || name == "commit" ||
                               name == "jobs_push" || name == "notify" || name == "transact" ||
                               name == "self_announce" || name == "pool_enlist" ||
                               name == "pool_draw";
            BOOST_TEST((head["flags"] == "none") == grows);
        }
}

/// The matches of a pattern in a text: their groups, in small letters, with a bar between them.
std::set<std::string> found_in(const std::string& text, const char* pattern)
{
    std::set<std::string> result;
    const std::regex wanted(pattern);
    for (std::sregex_iterator each(text.begin(), text.end(), wanted);
         each != std::sregex_iterator(); ++each)
    {
        std::string words = (*each)[1];
        if (each->size() > 2 && (*each)[2].matched)
            words += '|' + std::string((*each)[2]);
        std::ranges::transform(words, words.begin(),
                               [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        result.insert(words);
    }
    return result;
}

// The server would create unused functions in each call.
BOOST_AUTO_TEST_CASE(scripts_contain_only_the_functions_that_they_call)
{
    for (const redis::detail::script& each : redis::detail::scripts())
    {
        const std::string text(each.text);
        BOOST_TEST(found_in(text, "\\n *(--)").empty(), each.name);
        for (const std::string& function : found_in(text, "\\nlocal function ([a-z_]+)"))
        {
            const std::regex name("[^a-z_.]" + function + "[^a-z_]");
            const std::sregex_iterator first(text.begin(), text.end(), name);
            BOOST_TEST(std::distance(first, {}) > 1, each.name << ": " << function);
        }
    }
}

BOOST_AUTO_TEST_CASE(the_self_test_checks_every_command_of_the_scripts)
{
    std::set<std::string> called;
    for (const std::string& name : script_names())
        called.merge(found_in(script_text(name), R"(call\('([A-Z]+)'(?:, '([A-Z]+)')?)"));
    BOOST_TEST(called.contains("pubsub|numsub"));
    // The client tries PUBLISH instead.
    BOOST_TEST(called.erase("publish") == 1U);

    const std::string test = script_file("self_test");
    const std::size_t begin = test.find("local commands = {");
    BOOST_REQUIRE(begin != std::string::npos);
    const std::string list = test.substr(begin, test.find('}', begin) - begin);
    BOOST_TEST(found_in(list, "'([a-z|]+)'") == called, boost::test_tools::per_element());
}

/// The commands that a client sends for locks or for pools, by name, each with its numbers of keys and
/// arguments.
std::map<std::string, driven_client::command> commands_of(driven_client& client)
{
    client.connect();
    std::map<std::string, driven_client::command> sent;
    const auto note = [&]
    {
        for (const auto& each : client.commands)
            sent[std::string(name_of(each.op, each.kind))] = each;
    };
    const auto first = client.hold();
    const auto second = client.want();
    note();
    client.answer(client.queued(5, std::chrono::seconds(3)));
    client.pass(std::chrono::milliseconds(5100));
    note();
    client.disconnect();
    client.connect(2);
    note();
    client.answer({client.own(driven_client::first_fence, std::chrono::seconds(15)),
                   client.queued(5, std::chrono::seconds(3))});
    client.release(first);
    client.cancel(second);
    note();
    return sent;
}

template <class Command>
void check_numbers(const std::map<std::string, Command>& sent, std::size_t keys_of_an_object)
{
    for (const auto& [name, command] : sent)
        BOOST_TEST_CONTEXT(name)
        {
            auto head = head_of(name);
            const std::size_t locks = command.keys.size() / keys_of_an_object;
            const auto [keys, keys_each] = count(head["KEYS"]);
            BOOST_TEST(command.keys.size() == keys + keys_each * locks);
            const auto [arguments, arguments_each] = count(head["ARGV"]);
            BOOST_TEST(command.arguments.size() == arguments + arguments_each * locks);
        }
}

BOOST_AUTO_TEST_CASE(the_client_sends_what_the_scripts_take)
{
    driven_client client;
    auto sent = commands_of(client);
    driven_client other;
    const auto note = [&]
    {
        for (const auto& each : other.commands)
            sent[std::string(name_of(each.op, each.kind))] = each;
    };
    other.connect();
    const auto follower = other.sleep(other.hold());
    note();
    other.answer(other.say(driven_client::status::released));
    other.end_wait(follower);
    other.notify();
    note();
    redis::detail::lease_options options;
    options.state = "state";
    connected_client monitor(options);
    monitor.receive(
        monitor.grant(monitor.want(), driven_client::first_fence, std::chrono::seconds(4)));
    monitor.answer(monitor.queued(5, std::chrono::seconds(4)));
    sent["fetch"] = monitor.commands.at(0);
    monitor.machine.transact(monitor.now, monitor.lock,
                             std::make_shared<redis::detail::proposal>());
    monitor.pass(std::chrono::seconds(0));
    sent["transact"] = monitor.commands.at(1);
    connected_client contributor(options);
    contributor.contribute(contributor.hold());
    contributor.answer(contributor.say(driven_client::status::released));
    contributor.pass(std::chrono::milliseconds(5100));
    sent["contributions"] = contributor.commands.at(0);
    BOOST_TEST(sent.size() == redis::detail::number_of_operations - 1);
    check_numbers(sent, 1);
}

BOOST_AUTO_TEST_CASE(the_client_sends_what_the_scripts_of_a_pool_take)
{
    redis::detail::lease_options options;
    options.pool = redis::detail::pool_shape{3, 0};
    driven_client client(options);
    auto sent = commands_of(client);
    client.read();
    for (const auto& each : client.commands)
        sent[std::string(name_of(each.op, each.kind))] = each;
    BOOST_TEST(sent.size() == redis::detail::number_of_operations - 6);
    check_numbers(sent, 1);
}

BOOST_AUTO_TEST_CASE(the_client_sends_what_the_scripts_of_a_gate_take)
{
    using redis::detail::gate_call;
    for (const char* kind : {"event", "barrier"})
    {
        driven_gates client(kind);
        client.connect();
        std::map<std::string, turnstile::test::sent_gate_command> sent;
        const bool is_barrier = client.keys().size() == 4U;
        for (const gate_call call : {gate_call::wait, gate_call::read, gate_call::arrive_and_wait,
                                     gate_call::meet, gate_call::drop})
            if (is_barrier == (call == gate_call::meet || call == gate_call::drop))
            {
                client.begin(call);
                const auto& command = client.commands.back();
                sent[std::string(command.script)] = command;
            }
        BOOST_TEST(sent.size() == 1U);
        check_numbers(sent, is_barrier ? 4 : 3);
    }
}

BOOST_AUTO_TEST_CASE(the_client_sends_what_the_scripts_of_a_job_queue_take)
{
    using redis::detail::job_operation;
    std::map<std::string, std::vector<std::string>> sent;
    const auto note = [&](const driven_jobs& client)
    {
        for (const auto& each : client.commands)
            sent[std::string(name_of(each.op))] = each.arguments;
    };
    driven_jobs worker;
    worker.connect();
    const auto job = worker.start();
    worker.pass(std::chrono::seconds(5));
    worker.finish(job);
    worker.push();
    worker.call(job_operation::manage, {"pause", "0", "0"});
    worker.call(job_operation::list, {"counts", "0", "1"});
    note(worker);
    driven_jobs waiting;
    waiting.connect();
    const auto request = waiting.next();
    note(waiting);
    waiting.answer({"parked " + waiting.clock() + " 0 42"});
    waiting.cancel(request);
    const std::string begin = waiting.clock() + ' ' + waiting.clock(std::chrono::seconds(15));
    waiting.receive("job q grant " + begin + ' ' + driven_jobs::attempt(request));
    note(waiting);
    waiting.disconnect();
    waiting.connect(2);
    note(waiting);
    BOOST_TEST(sent.size() == 9U);
    for (const auto& [name, arguments] : sent)
        BOOST_TEST_CONTEXT(name)
        {
            auto head = head_of(name);
            BOOST_TEST(head["KEYS"] == "queue");
            const auto [once, each] = count(head["ARGV"]);
            BOOST_TEST(arguments.size() == once + each);
        }
}

// --- the list -----------------------------------------------------------------------------------

/// A minimal model of a lock: a holder and a list of waiters, served in order, with leases.
struct plain_list
{
    std::string owner;
    std::int64_t deadline = 0;
    std::vector<std::string> waiters;
    /// Connections that have let a lease expire, and have sent no command since. Their waiters are dropped in
    /// their turn.
    std::set<std::string> silent;
    std::int64_t now = 0;

    static bool listens(const std::string& id) { return id[0] != 'x'; }
    static std::string connection(const std::string& id) { return id.substr(0, id.find('.')); }

    void settle(const std::string& caller = "", const std::string& speaker = "")
    {
        if (!owner.empty() && deadline <= now)
        {
            silent.insert(connection(owner));
            owner.clear();
        }
        silent.erase(connection(speaker.empty() ? caller : speaker));
        while (owner.empty() && !waiters.empty())
        {
            const std::string id = waiters.front();
            waiters.erase(waiters.begin());
            if (id == caller || (listens(id) && !silent.contains(connection(id))))
                own(id);
        }
    }
    void own(const std::string& id)
    {
        owner = id;
        deadline = now + 4'000'000;
    }
    void acquire(const std::string& id, bool waits)
    {
        settle(id);
        if (owner.empty())
            own(id);
        else if (waits && owner != id && std::ranges::find(waiters, id) == waiters.end())
            waiters.push_back(id);
    }
    void leave(const std::string& id)
    {
        settle("", id);
        std::erase(waiters, id);
        if (owner == id)
            owner.clear();
        settle();
    }
};

BOOST_AUTO_TEST_CASE(random_calls_have_the_same_effects_as_on_a_plain_list)
{
    run_seeds(100,
              [](std::uint64_t seed)
              {
                  dice choice(seed);
                  script_scene scene;
                  plain_list list;
                  const std::vector<std::string> ids{"a#1.1", "b#1.1", "c#1.1", "d#1.1",
                                                     "a#1.2", "x#1.1", "x#1.2"};
                  for (int i = 0; i < 150 && all_is_well(); ++i)
                  {
                      const std::string& id = choice.one_of(ids);
                      scene.pass(std::chrono::microseconds(choice.below(800'000)));
                      list.now = scene.store.clock;
                      const std::string holder = scene.owner();
                      switch (choice.below(6))
                      {
                      case 0:
                      case 1:
                      {
                          const bool waits = choice.below(5) != 0;
                          scene.acquire(id, waits ? "queue" : "try");
                          list.acquire(id, waits);
                          break;
                      }
                      case 2:
                          scene.cancel(id);
                          list.leave(id);
                          break;
                      case 3:
                          scene.nudge(id);
                          list.settle(id);
                          break;
                      case 4:
                          if (scene.owner().empty())
                              break;
                          scene.renew(scene.owner(), scene.fence());
                          if (list.deadline > list.now)
                              list.deadline = std::max(list.deadline, list.now + 15'000'000);
                          list.settle("", holder);
                          break;
                      default:
                          if (scene.owner().empty())
                              break;
                          scene.release(scene.owner(), scene.fence());
                          list.owner.clear();
                          list.settle();
                      }
                      BOOST_TEST(scene.owner() == list.owner);
                      BOOST_TEST(scene.queue() == list.waiters, boost::test_tools::per_element());
                  }
              });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test

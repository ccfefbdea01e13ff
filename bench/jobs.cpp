// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Job queues over Redis side by side. Each is a program of bench/peers_redis with the same work.
//
// PROGRAM PORT CONCURRENCY prints "ready". Then it executes commands from its input, and answers each with a number:
//
//   push N   opens a new queue and pushes N jobs
//   more N   pushes N more; the nanoseconds (only Turnstile)
//   work N   starts workers that do N jobs, CONCURRENCY at a time; the nanoseconds from then to the last finish
//   both N   opens a new queue and starts workers, which wait. Then pushes N jobs, 50 at a time; the nanoseconds from the
//            first push to the last finish
//   idle N   opens a new queue and starts workers. N times, pushes a job when the workers wait; the median of the
//            nanoseconds from the push to the start of the job. The workers wait afterwards
//   close    stops the workers

#include <CLI/CLI.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "redis_long_commands.hpp"
#include "redis_peers.hpp"
#include "redis_world.hpp"

namespace bench {

namespace {

struct options : common_options
{
    unsigned repetitions = 5;
    int jobs = 5000;
    int many = 1'000'000;
    std::vector<peer> peers;
};

/// One of the programs.
class queue_program
{
public:
    queue_program(std::uint16_t port, const peer& who, int concurrency)
        : process_(fmt::format("{} {} {}", who.command, port, concurrency))
    {
        process_.expect("ready");
    }

    double ask(std::string_view what, int count = 0)
    {
        process_.say(fmt::format("{} {}", what, count).c_str());
        const std::string answer = process_.hear();
        if (answer.find_first_not_of("0123456789") != std::string::npos)
            throw std::runtime_error(fmt::format("{}: {}", what, answer));
        return std::stod(answer);
    }

private:
    worker_process process_;
};

/// The scripts that clients have called, and BullMQ's command that waits for jobs. Scripts call none of them.
double scripts(const server_counters& counters)
{
    return counters.calls("evalsha") + counters.calls("eval") + counters.calls("bzpopmin");
}

/// All commands but the health checks, and those of this program. No script may run meanwhile.
double commands(const server_counters& counters)
{
    double result = 0;
    for (const auto& [name, calls] : counters.all_calls())
        if (name != "ping" && name != "info")
            result += calls;
    return result;
}

/// The figures of one program: samples by case.
using samples = std::map<std::string, std::vector<double>>;

void measure_once(const redis_server& server, queue_program& program, int jobs, samples& out)
{
    const double each = jobs;
    program.ask("push", jobs);
    const server_counters before(server);
    out["jobs that were queued before"].push_back(program.ask("work", jobs) / each);
    out["scripts for a job"].push_back((scripts(server_counters(server)) - scripts(before)) / each);
    program.ask("close");
    out["jobs that are added meanwhile"].push_back(program.ask("both", jobs) / each);
    program.ask("close");
    out["from push to start, idle worker"].push_back(program.ask("idle", 100));
    const server_counters idle(server);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    out["commands of idle workers in a second"].push_back(commands(server_counters(server)) -
                                                          commands(idle));
    program.ask("close");
}

/// A case, and the bars for Turnstile.
struct limit
{
    std::string_view what;
    std::string_view unit;
    std::string_view baseline;
    double bar;
};

void add_rows(const placement& where, report& out, const options& o, int concurrency,
              const std::map<std::string, samples>& all)
{
    const double faster = concurrency == 1 ? 1.5 : 2;
    const std::vector<limit> limits{
        {"jobs that were queued before", "ns", "bullmq", 1 / faster},
        {"jobs that are added meanwhile", "ns", "bullmq", 1 / faster},
        {"from push to start, idle worker", "ns", "PING", 1.5},
        // The first ones of the workers belong to no job.
        {"scripts for a job", "", "", 1 + 2.0 * concurrency / o.jobs},
        {"commands of idle workers in a second", "", "", 0},
    };
    const auto name = [&](std::string_view who, std::string_view what)
    { return fmt::format("{}, {}, concurrency {}, {}", who, what, concurrency, where.name); };
    for (const limit& each : limits)
        for (const peer& who : o.peers)
        {
            if (!who.missing.empty())
            {
                out.add_missing(name(who.name, each.what), who.missing);
                continue;
            }
            const auto value = [&](const std::string& whose)
            { return median(all.at(whose).at(std::string(each.what))); };
            row r{name(who.name, each.what), value(who.name), std::string(each.unit)};
            const std::string baseline(each.baseline);
            if (who.name == "turnstile" && (baseline.empty() || all.contains(baseline)))
                r.bar = each.bar;
            if (!baseline.empty() && baseline != who.name && all.contains(baseline))
            {
                r.baseline = baseline == "PING" ? fmt::format("PING, {}", where.name)
                                                : name(baseline, each.what);
                r.ratio = r.value / value(baseline);
            }
            out.add(r);
        }
}

/// The round trip of a bare connection, by the median. Each command follows a pause, like the pushes that are compared
/// with it: the processors are slower then.
double ping(world& w, bare_connection& connection)
{
    std::vector<double> times;
    w.run(
        [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i != 500; ++i)
            {
                co_await pause(std::chrono::milliseconds(2));
                const double begin = real_time();
                co_await connection.send(world::words("PING"));
                times.push_back(real_time() - begin);
            }
        });
    return median(times);
}

void compare(const site& here, report& out, const options& o)
{
    double round_trip = 0;
    here.measure("compare", [&](world& w) { round_trip = ping(w, w.bare); });
    out.add({fmt::format("PING, {}", here.where.name), round_trip, "ns"});
    for (const int concurrency : {1, 50})
    {
        std::map<std::string, std::unique_ptr<queue_program>> programs;
        std::map<std::string, samples> all;
        for (const peer& who : o.peers)
            if (who.missing.empty())
                programs[who.name] =
                    std::make_unique<queue_program>(here.server.port(), who, concurrency);
        for (auto& [name, program] : programs)
        {
            // Warm-up: compilers of the peers, and memory of the server.
            samples unused;
            measure_once(here.server, *program, 1000, unused);
        }
        for (unsigned i = 0; i != o.repetitions; ++i)
            for (auto& [name, program] : programs)
                measure_once(here.server, *program, o.jobs, all[name]);
        all["PING"]["from push to start, idle worker"] = {round_trip};
        add_rows(here.where, out, o, concurrency, all);
    }
}

/// A worker across a network, where a message takes a millisecond.
void from_afar(const site& here, report& out, const options& o)
{
    turnstile::test::tcp_proxy link(here.server.port());
    link.delay(std::chrono::milliseconds(1));
    double round_trip = 0;
    here.measure("afar",
                 [&](world& w)
                 {
                     bare_connection far(w.context, link.port());
                     round_trip = ping(w, far);
                 });
    queue_program program(link.port(), o.peers.front(), 1);
    const double time = program.ask("idle", 100);
    program.ask("close");

    const std::string baseline = fmt::format("PING, 2 ms away, {}", here.where.name);
    out.add({baseline, round_trip, "ns"});
    out.add({fmt::format("from push to start, idle worker, 2 ms away, {}", here.where.name), time,
             "ns", baseline, time / round_trip, 1.5});
}

/// The long commands among pushes of very many jobs, and then of starts and ends of all of them.
std::set<int> long_scripts(const site& here, int jobs)
{
    std::set<int> result;
    here.measure(
        "many",
        [&](world& w)
        {
            const auto script = [](std::string_view name, std::vector<std::string> words)
            {
                words.insert(words.begin(), {"EVALSHA", std::string(script_named(name).sha1), "1",
                                             "queue", "wake:"});
                return words;
            };
            const auto next = [&](int i, const std::vector<std::string>& answer)
            {
                if (i < jobs)
                    return script("jobs_push", {"2 x", "2", "0", "", "0"});
                // Finishes the job of the former answer.
                return script("jobs_next", {fmt::format("a#1.{}/600000", i), "0",
                                            answer.size() == 3 ? answer[1] : "", "", "first"});
            };
            for (const std::string_view each : {"jobs_push", "jobs_next"})
                w.loaded(script_named(each).text);
            result = long_commands(w, 2 * jobs, next);
        });
    here.server.run({"FLUSHALL"});
    return result;
}

/// The long commands among PINGs.
std::set<int> long_pings(const site& here, int count)
{
    std::set<int> result;
    here.measure("pings",
                 [&](world& w)
                 {
                     result = long_commands(w, count, [](int, const std::vector<std::string>&)
                                            { return world::words("PING"); });
                 });
    return result;
}

/// Very many jobs in one queue.
void many(const site& here, report& out, const options& o)
{
    constexpr int part = 20'000;
    constexpr double payload = 1;
    const auto name = [&](std::string_view what)
    { return fmt::format("{}, {}", what, here.where.name); };
    queue_program program(here.server.port(), o.peers.front(), 50);
    std::optional<slow_log> log(here.server);
    // The median of several parts: other programs on the machine disturb some of them.
    const auto pushed = [&]
    {
        std::vector<double> parts;
        for (int i = 0; i != 5; ++i)
            parts.push_back(program.ask("more", part) / part);
        return median(parts);
    };
    program.ask("push", part);
    const server_counters before(here.server);
    const double first = pushed();
    program.ask("more", o.many - 11 * part);
    const double last = pushed();
    const double bytes =
        (server_counters(here.server).memory() - before.memory()) / (o.many - part) - payload;
    const double work = program.ask("work", o.many) / o.many;
    const double slow = log->take();
    program.ask("close");
    here.server.run({"FLUSHALL"});
    log.reset();
    const std::set<int> scripts = long_scripts(here, o.many);
    const std::set<int> repeated = long_scripts(here, o.many);
    const std::set<int> pings = long_pings(here, 2 * o.many);

    const std::string beginning = name("push into a short queue");
    const std::string end = name(fmt::format("push behind {} jobs", o.many));
    out.add({beginning, first, "ns"});
    out.add({end, last, "ns", beginning, last / first, 1 / 0.9});
    out.add({name(fmt::format("a job of {}, concurrency 50", o.many)), work, "ns"});
    out.add({name("bytes in the server for a job, beside the payload"), bytes, "B", {}, {}, 200.0});
    out.add({name(fmt::format("scripts over 1 ms, of those for {} jobs", o.many)), slow, ""});
    out.add({name(fmt::format("scripts over 1 ms of processor time, twice, of {}", 2 * o.many)),
             static_cast<double>(in_both(scripts, repeated)),
             "",
             {},
             {},
             0.0});
    out.add({name("scripts over 1 ms of processor time, once"),
             static_cast<double>(scripts.size() + repeated.size()), ""});
    out.add({name("the same of PING"), static_cast<double>(pings.size()), ""});
}

void in_place(const site& here, report& out, const options& o)
{
    if (o.wants("compare"))
        compare(here, out, o);
    if (o.wants("afar"))
        from_afar(here, out, o);
    if (o.wants("many") && here.where.client != here.where.server)
        many(here, out, o);
}

}  // namespace

}  // namespace bench

int main(int argc, char** argv)
{
    bench::options o;
    std::vector<std::string> peers;
    CLI::App app("Compares job queues over Redis.", "bench_jobs");
    o.add_to(app, {"compare", "afar", "many"});
    app.add_option("--repetitions", o.repetitions, "Number of turns of each program")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--jobs", o.jobs, "Number of jobs in a turn")
        ->check(CLI::Range(100, 1'000'000))
        ->capture_default_str();
    app.add_option("--many", o.many, "Number of jobs in the long queue")
        ->check(CLI::Range(100'000, 10'000'000))
        ->capture_default_str();
    app.add_option(
        "--peer", peers,
        "NAME=COMMAND of a program, or NAME! and why it is missing; the first one is Turnstile's");
    CLI11_PARSE(app, argc, argv);
    try
    {
        for (const std::string& each : peers)
            o.peers.push_back(bench::parse_peer(each));
        return bench::measure_everywhere(o, [&](const bench::site& here, bench::report& out)
                                         { bench::in_place(here, out, o); });
    }
    catch (const std::exception& error)
    {
        fmt::print(stderr, "bench_jobs: {}\n", error.what());
        return EXIT_FAILURE;
    }
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Locks and pools under faults that overlap, for as long as one likes: real servers, real connections, and an oracle
// that nothing of it can reach.
//
// Each client has a thread, a session, and a proxy of its own before its server. Its workers go in and out of
// mutexes, semaphores and shared mutexes. Meanwhile connections are cut, swallowed and delayed, clients are
// paused for longer than a lease, servers are paused, restarted with and without their memory, and made to
// forget scripts and keys.
//
// The oracle is a register for each lock and each pool, in the memory of this program. It counts as a
// violation
//
// - a fencing token that was granted before;
// - somebody who is inside with a valid guard after somebody else with a higher token was, if one of them was
//   to be alone, unless the server has lost its memory within the last lease;
// - more units inside with valid permits than there are, or readers beside a writer, with the same exception;
// - somebody who waits for longer than all faults and leases together can explain.

#include <CLI/CLI.hpp>
#include <array>
#include <chaos/client.hpp>
#include <chaos/oracle.hpp>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace turnstile::test::chaos;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;

namespace {

struct protected_server
{
    protected_server()
        : server({"--appendonly", "yes", "--appendfsync", "always"})
    {
    }

    redis_server server;
    memory kept;
};

// --- faults -------------------------------------------------------------------------------------

class fault_injector
{
public:
    fault_injector(std::vector<std::unique_ptr<protected_server>>& servers,
                   std::vector<std::unique_ptr<client>>& clients, unsigned seed)
        : servers_(servers)
        , clients_(clients)
        , random_(seed)
    {
    }

    /// One fault of some kind; those that last are healed some time later.
    void inject()
    {
        using fault = std::pair<const char*, void (fault_injector::*)()>;
        static constexpr std::array<fault, 11> faults{{
            {"connection cut", &fault_injector::cut},
            {"half-open to the client", &fault_injector::swallow_to_client},
            {"half-open to the server", &fault_injector::swallow_to_server},
            {"delay", &fault_injector::delay},
            {"connections refused", &fault_injector::refuse},
            {"client paused", &fault_injector::pause_client},
            {"CLIENT KILL", &fault_injector::kill_connections},
            {"SCRIPT FLUSH", &fault_injector::flush_scripts},
            {"server paused", &fault_injector::pause_server},
            {"server killed, memory kept", &fault_injector::restart},
            {"server killed, memory lost", &fault_injector::restart_empty},
        }};
        const auto& [name, function] =
            faults[static_cast<std::size_t>(roll(0, static_cast<int>(faults.size()) - 1))];
        ++counts[name];
        (this->*function)();
    }

    /// Ends what has lasted long enough, or everything.
    void heal(bool all = false)
    {
        const auto now = steady_clock::now();
        std::erase_if(wounds_,
                      [&](const auto& wound)
                      {
                          if (!all && wound.first > now)
                              return false;
                          wound.second();
                          return true;
                      });
    }

    std::map<std::string, int> counts;

private:
    int roll(int least, int most)
    {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }

    client& any_client()
    {
        return *clients_[static_cast<std::size_t>(roll(0, static_cast<int>(clients_.size()) - 1))];
    }

    protected_server& any_server()
    {
        return *servers_[static_cast<std::size_t>(roll(0, static_cast<int>(servers_.size()) - 1))];
    }

    void later(std::function<void()> heal)
    {
        wounds_.emplace_back(steady_clock::now() + milliseconds(roll(20, 1500)), std::move(heal));
    }

    void cut() { any_client().proxy.cut(); }

    void swallow(tcp_proxy::direction which)
    {
        client& whom = any_client();
        whom.proxy.swallow(which);
        // What was swallowed leaves a gap in the stream: nothing may follow it.
        later([&whom] { whom.proxy.mend(); });
    }

    void swallow_to_client() { swallow(tcp_proxy::to_client); }
    void swallow_to_server() { swallow(tcp_proxy::to_server); }

    void delay()
    {
        client& whom = any_client();
        whom.proxy.delay(milliseconds(roll(1, 150)));
        later([&whom] { whom.proxy.delay(0ms); });
    }

    void refuse()
    {
        client& whom = any_client();
        whom.proxy.refuse(true);
        whom.proxy.cut();
        later([&whom] { whom.proxy.refuse(false); });
    }

    void pause_client() { any_client().pause(milliseconds(roll(100, 1500))); }

    void kill_connections() { command({"CLIENT", "KILL", "TYPE", "pubsub"}); }
    void flush_scripts() { command({"SCRIPT", "FLUSH"}); }

    void command(const std::vector<std::string>& words)
    {
        protected_server& which = any_server();
        if (!is_paused(which))
            which.server.run(words);
    }

    bool is_paused(const protected_server& which) const { return paused_ == &which; }

    void pause_server()
    {
        if (paused_ != nullptr)
            return;
        protected_server& which = any_server();
        paused_ = &which;
        which.server.pause();
        later(
            [this, &which]
            {
                which.server.resume();
                paused_ = nullptr;
            });
    }

    void restart()
    {
        protected_server& which = any_server();
        if (is_paused(which))
            return;
        which.server.kill();
        which.server.start();
    }

    void restart_empty()
    {
        protected_server& which = any_server();
        if (is_paused(which))
            return;
        which.kept.begin_to_lose();
        which.server.run({"FLUSHALL"});
        which.server.kill();
        which.server.start();
        which.kept.lose();
    }

    std::vector<std::unique_ptr<protected_server>>& servers_;
    std::vector<std::unique_ptr<client>>& clients_;
    std::mt19937 random_;
    const protected_server* paused_ = nullptr;
    std::vector<std::pair<steady_clock::time_point, std::function<void()>>> wounds_;
};

}  // namespace

int main(int argc, char** argv)
try
{
    int seconds = 10;
    unsigned seed = std::random_device()();
    int locks = 8;
    int clients_per_server = 3;
    int workers = 6;

    CLI::App app{"Locks and pools under faults that overlap.", "soak"};
    app.add_option("--seconds", seconds, "How long")->check(CLI::Range(1, 1'000'000));
    app.add_option("--seed", seed, "Which faults and when; the threads' timing is not determined");
    app.add_option("--locks", locks, "How many locks each server has, of each kind in turn")
        ->check(CLI::Range(1, 1000));
    app.add_option("--clients", clients_per_server, "How many sessions each server has")
        ->check(CLI::Range(1, 100));
    app.add_option("--workers", workers, "How many coroutines each session has")
        ->check(CLI::Range(1, 10'000));
    CLI11_PARSE(app, argc, argv);
    fmt::print("seed {}\n", seed);

    tally counts;
    std::vector<std::unique_ptr<protected_server>> servers;
    std::vector<std::vector<std::unique_ptr<oracle>>> oracles(2);
    std::vector<std::unique_ptr<client>> clients;
    for (std::size_t s = 0; s != oracles.size(); ++s)
    {
        servers.push_back(std::make_unique<protected_server>());
        for (int i = 0; i != locks; ++i)
            oracles[s].push_back(std::make_unique<oracle>(
                fmt::format("server {}, lock {}", s, i),
                capacity_of(kind_of(static_cast<std::size_t>(i))), counts, servers[s]->kept));
        for (int i = 0; i != clients_per_server; ++i)
            clients.push_back(
                std::make_unique<client>(servers[s]->server.port(), oracles[s], counts, workers,
                                         seed + static_cast<unsigned>(clients.size())));
    }

    fault_injector faults{servers, clients, seed};
    std::mt19937 random{seed};
    const auto end = steady_clock::now() + std::chrono::seconds(seconds);
    while (steady_clock::now() < end)
    {
        std::this_thread::sleep_for(
            milliseconds(std::uniform_int_distribution<int>(5, 150)(random)));
        faults.heal();
        faults.inject();
    }
    faults.heal(true);

    for (const auto& each : clients)
        each->stop();
    for (const auto& each : clients)
        each->join();

    for (const auto& [kind, count] : faults.counts)
        fmt::print("{:>6} {}\n", count, kind);
    fmt::print("{} sections, {} lost, {} given up, {} errors, longest wait {} ms, {} violations; "
               "of the sections {} with permits, {} reading, {} writing, {} upgraded\n",
               counts.sections.load(), counts.lost.load(), counts.given_up.load(),
               counts.errors.load(), counts.longest_wait_ms.load(), counts.violations.load(),
               counts.permits.load(), counts.reads.load(), counts.writes.load(),
               counts.upgrades.load());
    return counts.violations == 0 && counts.sections != 0 ? 0 : 1;
}
catch (const std::exception& error)
{
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
}

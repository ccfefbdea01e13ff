// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Locks under faults that overlap, for as long as one likes: real servers, real connections, and an oracle
// that nothing of it can reach.
//
// Each client has a thread, a session, and a proxy of its own before its server. Its workers go in and out of
// all locks. Meanwhile connections are cut, swallowed and delayed, clients are paused for longer than a lease,
// servers are paused, restarted with and without their memory, and made to forget scripts and keys.
//
// The oracle is a register for each lock, in the memory of this program. It counts as a violation
//
// - a fencing token that was granted before;
// - somebody who is inside with a valid guard after somebody else with a higher token was, unless the server
//   has lost its memory within the last lease;
// - somebody who waits for longer than all faults and leases together can explain.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <thread>
#include <turnstile/redis/async_mutex.hpp>
#include <unordered_set>
#include <vector>

namespace asio = boost::asio;
namespace redis = turnstile::redis;
using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;

namespace {

constexpr milliseconds lease = 500ms;
constexpr milliseconds claim = 200ms;

// Longer than any fault lasts, and then many leases and back-offs, also where everything is slow.
constexpr auto longest_explicable_wait = 120s;

// --- what happened ------------------------------------------------------------------------------

struct tally
{
    std::atomic<std::uint64_t> sections{0};
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> given_up{0};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<std::uint64_t> violations{0};
    std::atomic<std::int64_t> longest_wait_ms{0};

    void waited(steady_clock::duration span)
    {
        const auto ms = std::chrono::duration_cast<milliseconds>(span).count();
        auto seen = longest_wait_ms.load();
        while (seen < ms && !longest_wait_ms.compare_exchange_weak(seen, ms))
        {
        }
    }

    void violation(const std::string& text)
    {
        ++violations;
        fmt::print(stderr, "VIOLATION: {}\n", text);
    }
};

/// When a server lost its memory last.
struct memory
{
    std::atomic<bool> is_being_lost{false};
    std::atomic<steady_clock::rep> lost_at{0};

    void begin_to_lose() { is_being_lost = true; }

    void lose()
    {
        lost_at = steady_clock::now().time_since_epoch().count();
        is_being_lost = false;
    }

    [[nodiscard]] bool is_trusted() const
    {
        // However long that takes.
        if (is_being_lost)
            return false;
        const steady_clock::time_point when{steady_clock::duration(lost_at.load())};
        // The lease, and as much for those that were paused meanwhile.
        return steady_clock::now() > when + 2 * lease;
    }
};

/// What a lock protects.
class oracle
{
public:
    oracle(std::string name, tally& counts, const memory& server)
        : name_(std::move(name))
        , counts_(counts)
        , server_(server)
    {
    }

    void enter(std::uint64_t fence)
    {
        const std::lock_guard lock(mutex_);
        if (!granted_.insert(fence).second)
            counts_.violation(fmt::format("{}: granted {} twice", name_, fence));
    }

    /// Somebody is inside, and its guard is valid at this moment.
    template <class Valid>
    void visit(std::uint64_t fence, Valid valid)
    {
        const std::lock_guard lock(mutex_);
        if (!valid())
            return;
        if (fence < visitor_ && server_.is_trusted())
            counts_.violation(fmt::format("{}: {} is inside after {} was", name_, fence, visitor_));
        visitor_ = std::max(visitor_, fence);
    }

private:
    std::string name_;
    tally& counts_;
    const memory& server_;
    std::mutex mutex_;
    std::unordered_set<std::uint64_t> granted_;
    std::uint64_t visitor_ = 0;
};

struct protected_server
{
    protected_server()
        : server({"--appendonly", "yes", "--appendfsync", "always"})
    {
    }

    redis_server server;
    memory kept;
};

// --- a client -----------------------------------------------------------------------------------

class client
{
public:
    client(protected_server& server, std::vector<std::unique_ptr<oracle>>& oracles, tally& counts,
           int workers, unsigned seed)
        : proxy(server.server.port())
        , oracles_(oracles)
        , counts_(counts)
        , random_(seed)
    {
        redis::config settings{proxy.url()};
        settings.lease = lease;
        settings.claim_lease = claim;
        settings.health_check = 100ms;
        settings.connect_timeout = 500ms;
        settings.max_backoff = 200ms;
        session_ = std::make_unique<redis::session>(context_, settings);
        for (std::size_t i = 0; i != oracles_.size(); ++i)
            mutexes_.push_back(
                std::make_unique<redis::async_mutex>(*session_, fmt::format("lock {}", i)));
        for (int i = 0; i != workers; ++i)
            asio::co_spawn(context_, work(), [this](const std::exception_ptr& e) { ended(e); });
        workers_ = workers;
        thread_ = std::thread([this] { context_.run(); });
    }

    /// Keeps it from running.
    void pause(milliseconds span)
    {
        asio::post(context_, [span] { std::this_thread::sleep_for(span); });
    }

    /// Lets the workers come to their ends.
    void stop() { stopping_ = true; }

    void join()
    {
        thread_.join();
        mutexes_.clear();
        session_.reset();
    }

    [[nodiscard]] bool is_done() const { return workers_ == 0; }

    tcp_proxy proxy;

private:
    int roll(int least, int most)
    {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }

    asio::awaitable<void> sleep(milliseconds span)
    {
        asio::steady_timer timer{context_, span};
        co_await timer.async_wait(asio::deferred);
    }

    asio::awaitable<void> work()
    {
        while (!stopping_)
        {
            const auto which =
                static_cast<std::size_t>(roll(0, static_cast<int>(oracles_.size()) - 1));
            const auto begun = steady_clock::now();
            // One in four loses its patience.
            const bool patient = roll(1, 4) != 1;
            const milliseconds patience =
                patient ? milliseconds(longest_explicable_wait) : milliseconds(roll(1, 300));
            auto [error, guard] = co_await mutexes_[which]->async_lock(
                asio::cancel_after(patience, asio::as_tuple(asio::deferred)));
            counts_.waited(steady_clock::now() - begun);
            if (error == asio::error::operation_aborted && !patient)
                ++counts_.given_up;
            else if (error == asio::error::operation_aborted)
                counts_.violation(fmt::format("lock {}: waited in vain", which));
            else if (error)
                co_await note_error(error);
            else
                co_await section(*oracles_[which], guard);
        }
    }

    asio::awaitable<void> note_error(turnstile::error_code error)
    {
        if (counts_.errors++ < 5)
            fmt::print(stderr, "error: {}\n", error.message());
        co_await sleep(10ms);
    }

    asio::awaitable<void> section(oracle& what, redis::async_mutex::guard_type& guard)
    {
        const std::uint64_t fence = guard.fencing_token();
        what.enter(fence);
        for (int i = roll(1, 3); i > 0; --i)
        {
            what.visit(fence, [&] { return guard.valid(); });
            co_await sleep(milliseconds(roll(0, 4)));
        }
        const auto [error] = co_await guard.async_unlock(asio::as_tuple(asio::deferred));
        ++(error ? counts_.lost : counts_.sections);
    }

    void ended(const std::exception_ptr& error)
    {
        try
        {
            if (error)
                std::rethrow_exception(error);
        }
        catch (const std::exception& e)
        {
            counts_.violation(fmt::format("exception: {}", e.what()));
        }
        if (--workers_ == 0)
            session_->async_close([](const turnstile::error_code&) {});
    }

    std::vector<std::unique_ptr<oracle>>& oracles_;
    tally& counts_;
    std::mt19937 random_;
    asio::io_context context_{1};
    std::unique_ptr<redis::session> session_;
    std::vector<std::unique_ptr<redis::async_mutex>> mutexes_;
    std::atomic<int> workers_{0};
    std::atomic<bool> stopping_{false};
    std::thread thread_;
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

    CLI::App app{"Locks under faults that overlap.", "soak"};
    app.add_option("--seconds", seconds, "How long")->check(CLI::Range(1, 1'000'000));
    app.add_option("--seed", seed, "Which faults and when; the threads' timing is not determined");
    app.add_option("--locks", locks, "How many locks each server has")->check(CLI::Range(1, 1000));
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
            oracles[s].push_back(std::make_unique<oracle>(fmt::format("server {}, lock {}", s, i),
                                                          counts, servers[s]->kept));
        for (int i = 0; i != clients_per_server; ++i)
            clients.push_back(
                std::make_unique<client>(*servers[s], oracles[s], counts, workers,
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
    fmt::print("{} sections, {} lost, {} given up, {} errors, longest wait {} ms, {} violations\n",
               counts.sections.load(), counts.lost.load(), counts.given_up.load(),
               counts.errors.load(), counts.longest_wait_ms.load(), counts.violations.load());
    return counts.violations == 0 && counts.sections != 0 ? 0 : 1;
}
catch (const std::exception& error)
{
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
}

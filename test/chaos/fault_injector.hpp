// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_FAULT_INJECTOR_HPP
#define TURNSTILE_TEST_CHAOS_FAULT_INJECTOR_HPP

#include <array>
#include <chaos/client.hpp>
#include <chaos/server.hpp>
#include <chaos/tally.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <support/tcp_proxy.hpp>
#include <utility>
#include <vector>

namespace turnstile::test::chaos {

/// The selected faults.
enum class faults
{
    all,
    /// Connections stall for seconds, and then continue or break.
    stalls,
};

/// Causes faults of connections, clients and servers.
class fault_injector
{
public:
    fault_injector(std::vector<protected_server*> servers, std::vector<client*> clients,
                   tally& counts, unsigned seed, faults which)
        : which_(which)
        , servers_(std::move(servers))
        , clients_(std::move(clients))
        , counts_(counts)
        , random_(seed)
    {
    }

    /// Causes one random fault. Lasting ones are healed some time later.
    void inject()
    {
        using fault = std::pair<const char*, bool (fault_injector::*)()>;
        static constexpr std::array<fault, 16> all{{
            {"connections held, then resumed", &fault_injector::hold_and_resume},
            {"connections held, then cut", &fault_injector::hold_and_cut},
            {"line held, then resumed", &fault_injector::hold_line_and_resume},
            {"line held, then cut", &fault_injector::hold_line_and_cut},
            {"connection cut", &fault_injector::cut},
            {"half-open to the client", &fault_injector::swallow_to_client},
            {"half-open to the server", &fault_injector::swallow_to_server},
            {"delay", &fault_injector::delay},
            {"connections refused", &fault_injector::refuse},
            {"client paused", &fault_injector::pause_client},
            {"CLIENT KILL", &fault_injector::kill_connections},
            {"rights to the units withdrawn", &fault_injector::withdraw_rights},
            {"SCRIPT FLUSH", &fault_injector::flush_scripts},
            {"server paused", &fault_injector::pause_server},
            {"server killed, memory kept", &fault_injector::restart},
            {"server killed, memory lost", &fault_injector::restart_empty},
        }};
        const std::size_t count = which_ == faults::stalls ? stalls : all.size();
        const auto& [name, function] =
            all[static_cast<std::size_t>(roll(0, static_cast<int>(count) - 1))];
        if ((this->*function)())
            counts_.fault(name);
    }

    /// Ends the faults that have lasted long enough, or all.
    void heal(bool all = false)
    {
        const auto now = std::chrono::steady_clock::now();
        std::erase_if(wounds_,
                      [&](const auto& wound)
                      {
                          if (!all && wound.first > now)
                              return false;
                          wound.second();
                          return true;
                      });
    }

private:
    /// The number of stalls at the beginning of the list.
    static constexpr std::size_t stalls = 4;

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

    void later(std::function<void()> heal) { later(roll(20, 1500), std::move(heal)); }

    void later(int ms, std::function<void()> heal)
    {
        wounds_.emplace_back(std::chrono::steady_clock::now() + std::chrono::milliseconds(ms),
                             std::move(heal));
    }

    // Each returns whether the fault could happen.

    /// Both directions stall. Meanwhile the client gives the connection up and opens another one, unless new ones stall
    /// as well. If the connection is not cut at the end, all its commands arrive late.
    bool hold(bool new_ones, bool cuts)
    {
        client& target = any_client();
        target.proxy.hold(new_ones);
        later(roll(1000, 5000),
              [&target, cuts]
              {
                  if (cuts)
                      target.proxy.cut();
                  target.proxy.resume();
              });
        return true;
    }

    bool hold_and_resume() { return hold(false, false); }
    bool hold_and_cut() { return hold(false, true); }
    bool hold_line_and_resume() { return hold(true, false); }
    bool hold_line_and_cut() { return hold(true, true); }

    bool cut()
    {
        any_client().proxy.cut();
        return true;
    }

    bool swallow(tcp_proxy::direction which)
    {
        client& target = any_client();
        target.proxy.swallow(which);
        // Swallowed data leave a gap in the stream: nothing may follow it.
        later([&target] { target.proxy.mend(); });
        return true;
    }

    bool swallow_to_client() { return swallow(tcp_proxy::to_client); }
    bool swallow_to_server() { return swallow(tcp_proxy::to_server); }

    bool delay()
    {
        client& target = any_client();
        target.proxy.delay(std::chrono::milliseconds(roll(1, 150)));
        later([&target] { target.proxy.delay(std::chrono::milliseconds(0)); });
        return true;
    }

    bool refuse()
    {
        client& target = any_client();
        target.proxy.refuse(true);
        target.proxy.cut();
        later([&target] { target.proxy.refuse(false); });
        return true;
    }

    bool pause_client()
    {
        any_client().pause(std::chrono::milliseconds(roll(100, 2500)));
        return true;
    }

    bool kill_connections() { return command({"CLIENT", "KILL", "TYPE", "pubsub"}); }
    /// Revokes all permissions, except those for units that are taken for good, whose users expect
    /// the error.
    bool withdraw_rights()
    {
        protected_server& which = any_server();
        if (is_paused(which) || restricted_ != nullptr)
            return false;
        restricted_ = &which;
        std::vector<std::string> rights{"ACL", "SETUSER", "default", "resetkeys"};
        for (const char* const kind : {"mutex*", "shared_mutex*", "monitor*", "event*", "latch*",
                                       "barrier*", "semaphore*:lock*"})
            rights.push_back(std::string("~turnstile:*:") + kind);
        which.server.run(rights);
        later(
            [this, &which]
            {
                which.server.run({"ACL", "SETUSER", "default", "~*"});
                restricted_ = nullptr;
            });
        return true;
    }

    bool flush_scripts() { return command({"SCRIPT", "FLUSH"}); }

    bool command(const std::vector<std::string>& words)
    {
        protected_server& which = any_server();
        if (is_paused(which))
            return false;
        which.server.run(words);
        return true;
    }

    bool is_paused(const protected_server& which) const { return paused_ == &which; }

    bool pause_server()
    {
        if (paused_ != nullptr)
            return false;
        protected_server& which = any_server();
        // A server that does not answer cannot be given its rights back, and this thread would wait for it.
        if (restricted_ == &which)
            return false;
        paused_ = &which;
        which.server.pause();
        later(
            [this, &which]
            {
                which.server.resume();
                paused_ = nullptr;
            });
        return true;
    }

    bool restart()
    {
        protected_server& which = any_server();
        if (is_paused(which))
            return false;
        which.server.kill();
        which.server.start();
        return true;
    }

    bool restart_empty()
    {
        protected_server& which = any_server();
        if (is_paused(which) || !which.forgets)
            return false;
        which.kept.begin_to_lose();
        which.server.run({"FLUSHALL"});
        which.server.kill();
        which.server.start();
        which.kept.lose();
        return true;
    }

    const faults which_;
    std::vector<protected_server*> servers_;
    std::vector<client*> clients_;
    tally& counts_;
    std::mt19937 random_;
    const protected_server* paused_ = nullptr;
    const protected_server* restricted_ = nullptr;
    std::vector<std::pair<std::chrono::steady_clock::time_point, std::function<void()>>> wounds_;
};

}  // namespace turnstile::test::chaos

#endif

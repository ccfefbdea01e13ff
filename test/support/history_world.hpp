// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_HISTORY_WORLD_HPP
#define TURNSTILE_TEST_SUPPORT_HISTORY_WORLD_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "random_runs.hpp"
#include "redis/protocol/clock_bound.hpp"

namespace turnstile::test {

/// Real time in a history, in microseconds. The clock of each client deviates from it.
using world_time = std::int64_t;

/// A connection between a client and the server.
struct simulated_link
{
    std::size_t client = 0;
    std::uint64_t life = 0;
    std::uint64_t incarnation = 0;
    std::string channel;
    bool broken = false;
    // Whether messages still reach the server and the client.
    bool up = true;
    bool down = true;
    bool at_server = true;
    // The number of commands in flight that still arrive after the connection broke.
    unsigned passing = 0;
    world_time last_command = 0;
    world_time last_reply = 0;

    /// Whether a command arrives that was sent over the connection.
    [[nodiscard]] bool lets_through()
    {
        if (!at_server || (!up && passing == 0))
            return false;
        if (!up)
            --passing;
        return true;
    }
};

/// A client as a process.
struct simulated_process
{
    std::uint64_t nonce = 0;
    // The number of processes that have been this client.
    std::uint64_t life = 0;
    std::uint64_t incarnation = 0;
    world_time offset = 0;
    double speed = 1;
    world_time paused_until = 0;
    world_time slow_until = 0;
    unsigned refusals = 0;
    std::deque<std::function<void()>> backlog;
};

/**
 * @brief The common part of the worlds of locks and of job queues: events in the order of time, chance, processes with
 *        their own clocks, and connections that break.
 *
 * @tparam World has clients_, whose elements extend simulated_process with a machine and a connection, lease_, options_,
 *               and result_. The connections extend simulated_link.
 */
template <class World>
class history_world
{
protected:
    explicit history_world(std::uint64_t seed)
        : dice_(seed)
    {
    }

    // Time.

    void at(world_time when, std::function<void()> what)
    {
        events_.push({std::max(when, now_), ++events_made_, std::move(what)});
    }

    void after(world_time span, std::function<void()> what) { at(now_ + span, std::move(what)); }

    void drain(world_time until)
    {
        while (!events_.empty() && events_.top().at <= until && self().violation().empty())
        {
            auto what = events_.top().what;
            now_ = events_.top().at;
            events_.pop();
            what();
        }
    }

    world_time span(world_time least, world_time most)
    {
        return least +
               static_cast<world_time>(dice_.below(static_cast<unsigned>(most - least + 1)));
    }

    bool chance(unsigned percent) { return dice_.below(100) < percent; }

    [[nodiscard]] redis::detail::local_time local(const simulated_process& who) const
    {
        return redis::detail::local_time(
            who.offset + static_cast<world_time>(static_cast<double>(now_) * who.speed));
    }

    [[nodiscard]] static world_time global(const simulated_process& who,
                                           redis::detail::local_time when)
    {
        if (when == redis::detail::local_time::min())
            return 0;
        return static_cast<world_time>(static_cast<double>(when.count() - who.offset) / who.speed) +
               1;
    }

    // Processes.

    /// Replaces the process of a client by a new one, with another clock.
    template <class Client>
    void renew_process(Client& who, std::size_t index)
    {
        const std::uint64_t life = who.life;
        who = Client();
        who.life = life;
        // Four hexadecimal digits, so that nonces are equally long in each line of a log.
        who.nonce = 0xC000 + 0x10 * index + ++nonces_ * 0x100;
        who.offset = span(0, 1'000'000'000);
        who.speed = 1 + (static_cast<double>(span(0, 800)) - 400) / 1e6;
    }

    /// An event for a client. It takes effect at once, unless the process is stopped.
    void input(std::size_t index, std::function<void()> what)
    {
        auto& who = self().clients_[index];
        if (!who.machine)
            return;
        if (who.paused_until > now_)
        {
            who.backlog.push_back(std::move(what));
            return;
        }
        what();
        self().perform(index);
    }

    /// Does something in a process later, if it still runs then.
    void later(std::size_t index, world_time span, std::function<void()> what)
    {
        after(span,
              [this, index, life = self().clients_[index].life, what = std::move(what)]
              {
                  if (self().clients_[index].life == life)
                      input(index, what);
              });
    }

    /// Stops a process for a while.
    void pause(std::size_t victim)
    {
        auto& who = self().clients_[victim];
        const world_time until =
            now_ + (chance(50) ? span(0, self().lease_) : span(0, 3 * self().lease_));
        who.paused_until = std::max(who.paused_until, until);
        at(until,
           [this, victim, life = who.life, paused_at = now_]
           {
               auto& later = self().clients_[victim];
               if (later.life != life || later.paused_until > now_)
                   return;
               self().resumed(paused_at);
               log("client ", victim, ": goes on");
               auto backlog = std::exchange(later.backlog, {});
               // The process may handle its timers or its received data first.
               if (chance(50))
                   input(victim,
                         [&later, victim, this] { self().machine(victim).tick(local(later)); });
               for (auto& each : backlog)
                   if (later.life == life)
                       input(victim, std::move(each));
           });
    }

    // Connections.

    world_time delay(std::size_t index)
    {
        if (self().clients_[index].slow_until > now_)
            return span(1'000, self().lease_ / 3);
        return chance(95) ? span(50, 3'000) : span(50, 100'000);
    }

    /// Breaks a connection. Client and server notice at different times.
    template <class Link>
    void cut(const std::shared_ptr<Link>& line, world_time notice, world_time drop_after)
    {
        if (line->broken)
            return;
        line->broken = true;
        line->down = false;
        after(drop_after, [this, line] { self().drop(*line); });
        after(notice,
              [this, line]
              {
                  const std::size_t index = line->client;
                  if (self().clients_[index].life != line->life)
                      return;
                  input(index,
                        [this, index, line]
                        {
                            auto& who = self().clients_[index];
                            if (who.connection != line)
                                return;
                            log("client ", index, ": notices that its connection is gone");
                            who.connection.reset();
                            self().machine(index).disconnected(local(who));
                            self().connect(index);
                        });
              });
    }

    /// Lets data of the server arrive at a client, unless their connection breaks before.
    template <class Link>
    void deliver_at(world_time when, const std::shared_ptr<Link>& line, std::function<void()> what)
    {
        at(when,
           [this, line, what = std::move(what)]
           {
               if (!line->down || self().clients_[line->client].life != line->life)
                   return;
               input(line->client,
                     [this, line, what]
                     {
                         if (self().clients_[line->client].connection == line)
                             what();
                     });
           });
    }

    template <class... Parts>
    void log(const Parts&... parts)
    {
        if (!self().options_.log)
            return;
        std::string line = std::to_string(now_) + " us ";
        const auto append = [&](const auto& part)
        {
            using type = std::decay_t<decltype(part)>;
            if constexpr (std::is_integral_v<type> && !std::is_same_v<type, char>)
                line += std::to_string(part);
            else
                line += part;
        };
        (append(parts), ...);
        self().result_.events.push_back(std::move(line));
    }

    dice dice_;
    world_time now_ = 0;

private:
    struct event
    {
        world_time at = 0;
        std::uint64_t order = 0;
        std::function<void()> what;

        friend bool operator<(const event& a, const event& b)
        {
            return std::pair(b.at, b.order) < std::pair(a.at, a.order);
        }
    };

    World& self() { return static_cast<World&>(*this); }

    std::uint64_t events_made_ = 0;
    std::uint64_t nonces_ = 0;
    std::priority_queue<event> events_;
};

}  // namespace turnstile::test

#endif

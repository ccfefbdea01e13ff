// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CHAOS_MORTALS_HPP
#define TURNSTILE_TEST_CHAOS_MORTALS_HPP

#include <atomic>
#include <chaos/client.hpp>
#include <chaos/server.hpp>
#include <chaos/tally.hpp>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <random>
#include <string>
#include <support/lock_process.hpp>
#include <support/reading_room.hpp>
#include <thread>
#include <turnstile/redis/monitor.hpp>
#include <utility>

namespace turnstile::test::chaos {

/**
 * @brief A sequence of processes that contribute to the state of a monitor, and are stopped for longer than a
 *        lease, or killed.
 *
 * At the end, all their contributions are undone, and each visit was counted once if its process received the result.
 */
class mortals
{
public:
    mortals(const protected_server& server, std::string room, tally& counts, unsigned seed)
        : server_(server)
        , room_(std::move(room))
        , counts_(counts)
        , random_(seed)
    {
        // A process is killed when the thread that started it ends.
        thread_ = std::thread([this] { run(); });
    }
    mortals(const mortals&) = delete;
    mortals& operator=(const mortals&) = delete;
    ~mortals()
    {
        end();
        thread_.join();
    }

    void end() { is_over_ = true; }
    [[nodiscard]] bool has_ended() const { return has_ended_; }

    /// Checks the state when all processes have ended.
    void inspect(client& inspector)
    {
        inspector.employ("who inspects the reading room",
                         [this, &inspector](worker&) { return look(inspector); });
    }

private:
    using monitor_type = redis::monitor<reading_room>;

    int roll(int least, int most)
    {
        return std::uniform_int_distribution<int>(least, most)(random_);
    }

    void run()
    {
        try
        {
            while (!is_over_)
                live();
        }
        catch (const std::exception& error)
        {
            counts_.violation(fmt::format("{}: {}", room_, error.what()));
        }
        has_ended_ = true;
    }

    /// Enters and leaves a few times; then the process is killed.
    void live()
    {
        lock_process process(server_.server, brief_url(server_.server.url()));
        for (int i = roll(1, 6); i > 0 && !is_over_; --i)
            enter_and_leave(process);
        // Perhaps kills it during a critical section.
        ++asked_;
        process.send("enter " + room_);
        std::this_thread::sleep_for(std::chrono::milliseconds(roll(0, 20)));
        if (process.kill())
            counts_.fault("process killed");
    }

    void enter_and_leave(lock_process& process)
    {
        ++asked_;
        if (process.ask("enter " + room_, "entered " + room_) == "ok")
        {
            ++entered_;
            counts_.done("contributions of processes");
        }
        if (roll(1, 3) == 1 && process.stop())
        {
            counts_.fault("process stopped");
            std::this_thread::sleep_for(
                std::chrono::milliseconds(roll(0, 2 * static_cast<int>(lease.count()))));
            process.go_on();
        }
        if (roll(1, 3) != 1)
            process.ask("leave " + room_, "left " + room_);
    }

    asio::awaitable<void> look(client& inspector)
    {
        monitor_type monitor(inspector.session(), room_);
        auto gone = monitor.make_condition(reader_gone);
        reading_room seen;
        auto body = [&](monitor_type::section& inside) -> asio::awaitable<void>
        {
            const auto is_empty = [](const reading_room& now) { return now.readers == 0; };
            co_await inside.async_wait(gone, is_empty);
            seen = *inside;
        };
        const time_limit limit = inspector.endless_time_limit();
        auto token = client::no_longer_than(limit);
        const auto [failure] = co_await monitor.async_with(body, std::move(token));
        if (failure)
            counts_.violation(room_ + ": readers of crashed processes stay");
        else if (!server_.forgets && (seen.visits < entered_ || seen.visits > asked_))
            counts_.violation(fmt::format("{}: {} visits, {} were requested and {} reported", room_,
                                          seen.visits, asked_, entered_));
    }

    const protected_server& server_;
    const std::string room_;
    tally& counts_;
    std::mt19937 random_;
    int asked_ = 0;
    int entered_ = 0;
    std::atomic<bool> is_over_{false};
    std::atomic<bool> has_ended_{false};
    std::thread thread_;
};

}  // namespace turnstile::test::chaos

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_WATCH_LOG_HPP
#define TURNSTILE_DETAIL_WATCH_LOG_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/observe.hpp>
#include <utility>
#include <vector>

namespace turnstile::detail {

/// The events of one operation for the watch of a lock. They are collected under the queue lock,
/// and reported by the destructor, after the queue was unlocked. Does nothing for a lock without a
/// watch.
class watch_log
{
public:
    /// A log for an object that cannot be watched.
    watch_log() noexcept = default;

    watch_log(const std::shared_ptr<lock_watch>& watch, const std::string& name)
    {
        if (watch == nullptr)
            return;
        details_.reset(new details{watch, name, {}});
        // An attempt logs one event after it has parked its waiter, when it must not fail any more.
        details_->events.reserve(1);
    }

    [[nodiscard]] bool is_on() const noexcept { return details_ != nullptr; }

    /// The time of the steady clock, in nanoseconds.
    [[nodiscard]] static std::int64_t now() noexcept
    {
        return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    }

    void contended(std::uint64_t number, const std::source_location& where)
    {
        add(&watch_access::contended, number, 0, where);
    }

    void acquired(std::uint64_t number, std::int64_t waited, const std::source_location& where)
    {
        add(&watch_access::acquired, number, waited, where);
    }

    void released(std::uint64_t number, std::int64_t held, const std::source_location& where)
    {
        add(&watch_access::released, number, held, where);
    }

private:
    using report_function = void (*)(lock_watch&, const lock_event&);

    struct details
    {
        std::shared_ptr<lock_watch> watch;
        // A copy: the lock may be destroyed before the events are reported.
        std::string name;
        std::vector<std::pair<report_function, lock_event>> events;

        ~details()
        {
            for (auto& [report, event] : events)
            {
                event.name = name;
                report(*watch, event);
            }
        }
    };

    void add(report_function report, std::uint64_t number, std::int64_t duration,
             const std::source_location& where)
    {
        details_->events.emplace_back(
            report, lock_event{{}, number, std::chrono::nanoseconds(duration), where});
    }

    std::unique_ptr<details> details_;
};

}  // namespace turnstile::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_BOOT_TIMER_HPP
#define TURNSTILE_SRC_REDIS_SESSION_BOOT_TIMER_HPP

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <turnstile/error.hpp>
#include <utility>

#ifdef __linux__
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <sys/timerfd.h>
#include <tuple>
#endif

#include "redis/session/boot_clock.hpp"
#include "redis/transport/fork_guard.hpp"

namespace turnstile::redis::detail {

/**
 * @brief A timer on the clock of leases, which continues while the machine sleeps.
 *
 * Asio's timers stop while the machine sleeps and then fire late, for any clock. On Linux the kernel has a
 * timer for CLOCK_BOOTTIME, which fires as soon as the machine wakes. On other systems, or without a free
 * file descriptor, this is a steady_timer.
 *
 * A forked child shares the kernel's timer with its parent. So the child does not set it, and neither process reads it:
 * the timer stays expired for both until it is set again. The child uses a steady_timer.
 */
class boot_timer
{
public:
    explicit boot_timer(const boost::asio::any_io_executor& executor)
        : steady_(executor)
#ifdef __linux__
        , kernel_(std::make_unique<descriptor>(executor))
#endif
    {
#ifdef __linux__
        if (const int file = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
            file >= 0)
            kernel_->assign(file);
#endif
    }

    boot_timer(const boot_timer&) = delete;
    boot_timer& operator=(const boot_timer&) = delete;

    ~boot_timer()
    {
#ifdef __linux__
        // Asio's destructor would remove the descriptor from the epoll set. Until notify_fork(), that set is also the
        // parent's, whose timer would never expire again. So a child leaves the descriptor as it is.
        if (guard_.is_forked())
        {
            cancel();
            std::ignore = kernel_.release();
        }
#endif
    }

    /// Calls a handler `void(error_code)` at a point of time, or earlier, if the wait that it replaces has just expired.
    /// Replaces the previous wait, whose handler gets an error.
    template <class Handler>
    void wait_until(local_time when, Handler&& handler)
    {
#ifdef __linux__
        if (kernel_->is_open() && !guard_.is_forked())
            return wait_for_kernel(when, std::forward<Handler>(handler));
#endif
        steady_.expires_after(when - boot_time());
        steady_.async_wait(std::forward<Handler>(handler));
    }

    void cancel()
    {
        steady_.cancel();
#ifdef __linux__
        error_code ignored;
        std::ignore = kernel_->cancel(ignored);
#endif
    }

private:
#ifdef __linux__
    using descriptor = boost::asio::posix::stream_descriptor;

    template <class Handler>
    void wait_for_kernel(local_time when, Handler&& handler)
    {
        error_code ignored;
        std::ignore = kernel_->cancel(ignored);
        // A time of 0 would disarm it.
        const std::int64_t at = std::max<std::int64_t>(when.count(), 1);
        itimerspec spec{};
        spec.it_value.tv_sec = at / 1'000'000;
        spec.it_value.tv_nsec = at % 1'000'000 * 1'000;
        ::timerfd_settime(kernel_->native_handle(), TFD_TIMER_ABSTIME, &spec, nullptr);
        kernel_->async_wait(descriptor::wait_read, std::forward<Handler>(handler));
    }
#endif

    boost::asio::steady_timer steady_;
#ifdef __linux__
    std::unique_ptr<descriptor> kernel_;
    fork_guard guard_;
#endif
};

}  // namespace turnstile::redis::detail

#endif

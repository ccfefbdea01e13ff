// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_DELAYED_DELIVERY_HPP
#define TURNSTILE_DETAIL_DELAYED_DELIVERY_HPP

#include <turnstile/detail/context_registry.hpp>
#include <turnstile/detail/waiter.hpp>

namespace turnstile::detail {

/// Delays the deliveries of this thread until its destructor runs.
class delayed_delivery
{
public:
    delayed_delivery() noexcept
    {
        if (is_outermost_)
            progress_.waiters = &ready_;
    }

    delayed_delivery(const delayed_delivery&) = delete;
    delayed_delivery& operator=(const delayed_delivery&) = delete;

    ~delayed_delivery()
    {
        if (!is_outermost_)
            return;
        progress_.waiters = nullptr;
        deliver(ready_);
    }

private:
    delivery_in_progress& progress_ = delivery_in_progress::of_this_thread();
    const bool is_outermost_ = progress_.waiters == nullptr;
    waiter_chain ready_;
};

}  // namespace turnstile::detail

#endif

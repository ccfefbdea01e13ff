// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_DELAYED_POSTING_HPP
#define TURNSTILE_DETAIL_DELAYED_POSTING_HPP

#include <turnstile/detail/wait_queue_base.hpp>
#include <turnstile/detail/waiter.hpp>

namespace turnstile::detail {

/// Delays the posts of this thread until its destructor runs.
class delayed_posting
{
public:
    delayed_posting() noexcept
    {
        if (is_outermost_)
            progress_.waiters = &ready_;
    }

    delayed_posting(const delayed_posting&) = delete;
    delayed_posting& operator=(const delayed_posting&) = delete;

    ~delayed_posting()
    {
        if (!is_outermost_)
            return;
        progress_.waiters = nullptr;
        post_all(ready_);
    }

private:
    posting_in_progress& progress_ = posting_in_progress::of_this_thread();
    const bool is_outermost_ = progress_.waiters == nullptr;
    waiter_list ready_;
};

}  // namespace turnstile::detail

#endif

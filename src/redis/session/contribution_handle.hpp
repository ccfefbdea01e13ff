// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_CONTRIBUTION_HANDLE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_CONTRIBUTION_HANDLE_HPP

#include <memory>
#include <utility>

#include "redis/protocol/protocol_client.hpp"
#include "redis/session/held_lock.hpp"

namespace turnstile::redis::detail {

/// The state of a contribution object. Any thread may use it, except for the members that belong to the
/// session's strand.
class contribution_handle final : public held_lease
{
public:
    contribution_handle(std::shared_ptr<lock_handle> which, contribution_terms what,
                        std::shared_ptr<revocable_executor> where)
        // A time in the past until the server has confirmed the contribution.
        : held_lease(local_time(), std::make_shared<loss_signal>(std::move(where)))
        , lock(std::move(which))
        , terms(std::move(what))
    {
    }

    const std::shared_ptr<lock_handle> lock;
    const contribution_terms terms;

    /// The client's name for the contribution. The id is 0 until a critical section has committed the contribution.
    /// Belongs to the session's strand.
    contribution_name name;
    /// Whether the contribution object has been destroyed. Belongs to the session's strand.
    bool is_dropped = false;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_ENGINE_OWNER_HPP
#define TURNSTILE_SRC_REDIS_SESSION_ENGINE_OWNER_HPP

#include <memory>
#include <string>
#include <turnstile/error.hpp>

#include "redis/transport/reply.hpp"

namespace turnstile::redis::detail {

/// The session that owns the engines of the gates and of the job queues.
class engine_owner
{
public:
    /// An action was performed; the engine may be idle now.
    virtual void have_acted() = 0;

    /// Logs why an operation failed: the server returned the error @p text, or a key has unexpected content.
    virtual void report(error_code code, const std::string& key, const std::string& text) = 0;

    /// The server answered a command.
    virtual void answered(const reply& answer) = 0;

    /// The reason why the server is unreachable; no error if the session is connected.
    [[nodiscard]] virtual error_code why_unreachable() const = 0;

    /// Keeps the session alive while a command is in flight.
    [[nodiscard]] virtual std::shared_ptr<void> keep() = 0;

protected:
    engine_owner() = default;
    engine_owner(const engine_owner&) = default;
    engine_owner& operator=(const engine_owner&) = default;
    ~engine_owner() = default;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_CLIENT_ENGINE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_CLIENT_ENGINE_HPP

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <utility>
#include <variant>

#include "redis/session/boot_clock.hpp"
#include "redis/transport/connection.hpp"
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

    /// The error with which a new operation fails at present, if any. Operations that only read do not wait for a
    /// server.
    [[nodiscard]] virtual error_code why_refused(bool only_reads = false) const = 0;

    /// The reason why the server is unreachable; no error if the session is connected.
    [[nodiscard]] virtual error_code why_unreachable() const = 0;

    /// Keeps the session alive while a command is in flight.
    [[nodiscard]] virtual std::shared_ptr<void> keep() = 0;

protected:
    ~engine_owner() = default;
};

/**
 * The common part of the engines of gates and of job queues: passes events to a client, and its actions to functions
 * `perform` of the `Engine`, which derives from this class.
 *
 * All calls and callbacks run on the strand of the session, whose connection it uses.
 */
template <class Engine, class Client>
class client_engine
{
public:
    /// The session is connected. @p server describes the connection as the client needs it.
    template <class... Server>
    void connected(Server... server)
    {
        client_.connected(boot_time(), server...);
        perform();
    }

    void disconnected()
    {
        client_.disconnected(boot_time());
        perform();
    }

    void received(std::string_view message)
    {
        client_.received(boot_time(), message);
        perform();
    }

    /// The latest time for the next @ref tick; nothing if there are no timers.
    [[nodiscard]] std::optional<local_time> next_tick() const { return client_.next_tick(); }

    void tick()
    {
        client_.tick(boot_time());
        perform();
    }

    /// Whether no operation needs the server.
    [[nodiscard]] bool is_idle() const noexcept { return client_.is_idle(); }

protected:
    client_engine(Client client, connection& wire, engine_owner& who)
        : client_(std::move(client))
        , connection_(&wire)
        , owner_(&who)
    {
    }

    void perform()
    {
        if (std::exchange(is_performing_, true))
            return;
        for (auto actions = client_.take_actions(); !actions.empty();
             actions = client_.take_actions())
            for (const auto& each : actions)
                std::visit([this](const auto& what) { static_cast<Engine*>(this)->perform(what); },
                           each);
        is_performing_ = false;
        owner_->have_acted();
    }

    /// The handler of the reply to a command.
    [[nodiscard]] auto on_reply(std::uint64_t number)
    {
        return [this, kept = owner_->keep(), number](const reply& answer)
        {
            owner_->answered(answer);
            // The client has already processed the loss of the connection.
            if (answer.result == reply::status::unknown)
                return;
            if (answer.result == reply::status::error)
                client_.refused(boot_time(), number, answer.error);
            else if constexpr (requires { client_.answered(boot_time(), number, answer.texts); })
                client_.answered(boot_time(), number, answer.texts);
            else
                client_.answered(boot_time(), number, answer.text());
            perform();
        };
    }

    Client client_;
    connection* connection_;
    engine_owner* owner_;

private:
    bool is_performing_ = false;
};

}  // namespace turnstile::redis::detail

#endif

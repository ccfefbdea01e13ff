// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_REPLICA_WATCH_HPP
#define TURNSTILE_SRC_REDIS_SESSION_REPLICA_WATCH_HPP

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>

#include "redis/protocol/protocol_client.hpp"
#include "redis/transport/connection.hpp"

namespace turnstile::redis::detail {

/**
 * Finds out when replicas have acknowledged grants. Has its own connection, because WAIT blocks the
 * connection.
 *
 * WAIT covers the writes of its own connection. So each round publishes a message to its own channel after
 * the grants, and waits until replicas have acknowledged it. A round covers all grants that were added
 * before it began. Rounds are short for two reasons: the connection does not look broken, and a grant that
 * needs few replicas does not wait for grants that need more.
 *
 * All calls and callbacks run on the strand of the session.
 */
class replica_watch final : private connection::observer
{
public:
    /// Receives the results, and owns the watch.
    class observer
    {
    public:
        /// Whether the server with this run id has the grant in its memory, as far as the observer knows.
        /// Then the acknowledgements of that server's replicas count.
        [[nodiscard]] virtual bool server_knows(attempt_id grant,
                                                std::string_view run_id) const = 0;

        /// Enough replicas have acknowledged a grant.
        virtual void acknowledged(attempt_id grant) = 0;

        /// The server cannot report acknowledgements, for this reason.
        virtual void unacknowledged(attempt_id grant, std::string_view why) = 0;

        /// Keeps the observer alive while an operation is in progress.
        [[nodiscard]] virtual std::shared_ptr<void> keep() = 0;

    protected:
        ~observer() = default;
    };

    /// Starts to connect. @p nonce names the watch, and must be unguessable.
    replica_watch(const boost::asio::any_io_executor& strand, const config& settings,
                  std::uint64_t nonce, observer& who);

    /// Adds a grant that replicas have to acknowledge.
    void ask(attempt_id grant, int replicas);

    /// Removes a grant.
    void forget(attempt_id grant);

    /// Begins a round if there are grants to ask about. To be called when a grant may have become known to
    /// the server.
    void proceed();

    /// To be called when the session uses another server: the former one may have become a replica.
    void check_role() { connection_->check_role(); }

    /// Closes the connection. Called once.
    void close();

private:
    struct question
    {
        int replicas = 0;
        /// Whether the current round covers it.
        bool in_round = false;
    };

    void connected(std::uint64_t incarnation, const server_info& server) override;
    void disconnected(error_code why) override;
    void message(std::string_view payload) override;

    void answered(const reply& answer);

    observer* observer_;
    connection::wake_channel channel_of_;
    std::shared_ptr<connection> connection_;
    std::string slice_;
    std::map<attempt_id, question> questions_;
    /// The run id of the connected server; empty while disconnected.
    std::string run_id_;
    std::string channel_;
    bool asking_ = false;
    /// The reason why the round's message was refused; empty if it was not.
    std::string refusal_;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_REPLICA_WATCH_HPP
#define TURNSTILE_SRC_REDIS_REPLICA_WATCH_HPP

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/redis/config.hpp>

#include "connection.hpp"
#include "protocol_client.hpp"

namespace turnstile::redis::detail {

/**
 * Finds out when replicas have heard of grants. WAIT blocks its connection, so this is one of its own.
 *
 * WAIT is about what its own connection has written. So each round writes something behind the grants, a
 * message that means nothing, and waits until replicas have acknowledged that. A round is for all
 * grants that were asked about before it began. It is short, so that the connection is not taken for a
 * dead one, and who wants few replicas does not wait for those that others want.
 *
 * Everything is called, and calls back, on the strand of the session.
 */
class replica_watch final : private connection::observer
{
public:
    /// Who wants to know, and owns the watch.
    class observer
    {
    public:
        /// Whether a grant stands in the memory of a server, as far as is known: then it counts what the
        /// replicas of that one acknowledge.
        [[nodiscard]] virtual bool stands(attempt_id grant, std::string_view run_id) const = 0;

        /// As many replicas as were asked for have heard of a grant.
        virtual void acknowledged(attempt_id grant) = 0;

        /// The server does not tell, and why.
        virtual void untold(attempt_id grant, std::string_view why) = 0;

        /// Keeps the observer alive while something is under way.
        [[nodiscard]] virtual std::shared_ptr<void> keep() = 0;

    protected:
        observer() = default;
        observer(const observer&) = default;
        observer& operator=(const observer&) = default;
        ~observer() = default;
    };

    /// Begins to connect. @p nonce names the watch, and nobody can guess it.
    replica_watch(const boost::asio::any_io_executor& strand, const config& settings,
                  std::uint64_t nonce, observer& who);

    /// Asks for the replicas of a grant.
    void ask(attempt_id grant, int replicas);

    /// Nobody wants to know of a grant any more.
    void forget(attempt_id grant);

    /// Begins a round, if there is something to ask. To be called when a grant may stand again.
    void proceed();

    /// Ends the connection; once.
    void close();

private:
    struct question
    {
        int replicas = 0;
        /// Whether the round that is under way is for it.
        bool asked = false;
    };

    void connected(std::uint64_t incarnation, const server_info& server) override;
    void disconnected(error_code why) override;
    void message(std::string_view payload) override;
    void failed_for_good(error_code why, std::string text) override;

    void answered(const reply& answer);

    observer* observer_;
    connection::wake_channel channel_of_;
    connection connection_;
    std::string slice_;
    std::map<attempt_id, question> questions_;
    /// Of the server that the watch is connected to; empty while it is not.
    std::string run_id_;
    std::string channel_;
    bool asking_ = false;
    /// Why the message of the round was refused; empty if it was not.
    std::string refusal_;
};

}  // namespace turnstile::redis::detail

#endif

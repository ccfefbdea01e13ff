// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_LINK_HPP
#define TURNSTILE_SRC_REDIS_LINK_HPP

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>

#include "reply.hpp"
#include "scripts.hpp"

namespace turnstile::redis::detail {

/**
 * @brief One connection to one server, from its making to its end: what we use of Boost.Redis.
 *
 * Boost.Redis can reconnect, subscribe again and repeat requests; nothing of that is used. A link
 * connects once, and when it breaks it is over: everything that it was asked and has not answered is
 * answered with reply::status::unknown, and another link is made. So no state of the old connection
 * (subscriptions, half-read replies, cancellations that came at the wrong moment) can leak into the new
 * one, and the old socket is closed, which the server takes for the end of its subscriptions.
 *
 * Replies and messages arrive in the order in which the server sent them, from within the parser: no
 * hop through the executor lies between the socket and the handler.
 *
 * Everything is called and happens on the executor, a strand.
 */
class link : public std::enable_shared_from_this<link>
{
public:
    /// Who wants to know. The link owns it, and it must not own the link, which its operations own.
    class observer
    {
    public:
        /// A message came. May call anything of the link.
        virtual void message(std::string_view channel, std::string_view payload) = 0;

        /// The link is over, and why; the last that is heard of it, but for the replies that are unknown,
        /// which follow at once. If the set-up failed, @p diagnostic is what the server said.
        virtual void ended(const error_code& why, const std::string& diagnostic) = 0;

    protected:
        observer() = default;
        observer(const observer&) = default;
        observer& operator=(const observer&) = default;
        virtual ~observer() = default;
    };

    /// Makes a link that is not yet started.
    [[nodiscard]] static std::shared_ptr<link> make(boost::asio::any_io_executor executor,
                                                    const config& settings, std::string channel,
                                                    std::shared_ptr<observer> who);

    /// Whether the link ended because of the server's certificate.
    [[nodiscard]] static bool is_mistrust(const error_code& why);

    link(const link&) = delete;
    link& operator=(const link&) = delete;
    virtual ~link() = default;

    /// Connects and sets up: greets, selects the database, subscribes, loads the scripts.
    virtual void start() = 0;

    /// Sends a command; it leaves in the same write as the set-up if that is not done yet. If it is
    /// EVALSHA of a script that the server has forgotten, the script is loaded, and the command is sent
    /// again.
    virtual void exec(std::string_view command, std::span<const std::string_view> arguments,
                      reply_handler handler, const script* source = nullptr) = 0;

    /// To be called once the set-up is done: makes the socket send at once.
    virtual void set_no_delay() = 0;

    /// Ends the link; ended() follows.
    virtual void cancel() = 0;

protected:
    link() = default;
};

}  // namespace turnstile::redis::detail

#endif

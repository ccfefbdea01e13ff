// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_OBJECTS_DIRECTORY_HANDLE_HPP
#define TURNSTILE_SRC_REDIS_OBJECTS_DIRECTORY_HANDLE_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <unordered_map>
#include <vector>

#include "redis/protocol/named_call.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis::detail {

/**
 * A directory of a session. It sends the commands.
 *
 * A call is one command. If the connection breaks before the answer, the directory sends the call
 * again under the same name, and the script does not repeat its effect.
 */
class directory_handle : public std::enable_shared_from_this<directory_handle>
{
public:
    using done_handler = std::function<void(error_code, const std::vector<std::string>&)>;

    directory_handle(std::shared_ptr<session_core> session, std::string_view name);

    const std::shared_ptr<session_core> core;
    const std::string index;

    [[nodiscard]] std::string key_of(std::string_view name) const;

    /// The arguments that all scripts of a directory have.
    [[nodiscard]] std::vector<std::string> common_arguments() const;

    /// Runs a script that may be executed several times: it reads, or renews a permit for its former lease. Like all
    /// scripts, it also ends expired grants and serves waiters.
    void look(session_engine& engine, std::string_view script, std::vector<std::string> keys,
              std::vector<std::string> arguments, done_handler done);

    /// Runs a script that changes a semaphore. It takes effect once, even if it has to be sent several times.
    void change(session_engine& engine, std::string_view script, const std::string& name,
                const std::vector<std::string>& more, done_handler done);

    /// Reads the numbers of semaphores. A script ends a limited number of grants, so it is repeated until no expired
    /// grant is left, and no waiter that can be served.
    void read_numbers(session_engine& engine, const std::vector<std::string>& keys,
                      done_handler done);

    /// Returns the object of a semaphore that a caller keeps, or makes a new one.
    [[nodiscard]] std::shared_ptr<async_semaphore> find(
        std::string_view name, const std::function<async_semaphore*()>& make);

private:
    struct message
    {
        std::string_view script;
        std::vector<std::string> keys;
        std::vector<std::string> arguments;
        error_code error{};
        int attempts = 0;
    };

    /// The last argument is the number of times that the message was sent.
    using sent_handler = std::function<void(error_code, const std::vector<std::string>&, int)>;

    void send(session_engine& engine, message what, sent_handler done);
    void forget(const std::string& name, const async_semaphore* object);

    const std::uint64_t nonce_ = make_nonce();
    // They belong to the session's strand.
    call_names names_;
    std::uint64_t calls_ = 0;
    // The semaphore objects that callers keep. Guarded by the common mutex.
    std::unordered_map<std::string, std::weak_ptr<async_semaphore>> waited_for_;
};

}  // namespace turnstile::redis::detail

#endif

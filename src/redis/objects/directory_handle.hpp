// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_OBJECTS_DIRECTORY_HANDLE_HPP
#define TURNSTILE_SRC_REDIS_OBJECTS_DIRECTORY_HANDLE_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <unordered_map>
#include <vector>

#include "redis/session/session_core.hpp"

namespace turnstile::redis::detail {

/// Digits that cannot be guessed: @p words times 32 bits.
[[nodiscard]] std::string random_text(int words);

/**
 * A directory of a session. It sends the scripts.
 *
 * A call is one script. If the connection breaks before the answer, it is sent again under the same name, and the script
 * does not repeat what it has done.
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

    /// Runs a script that changes nothing but what is due anyway.
    void look(session_engine& engine, std::string_view script, std::vector<std::string> keys,
              std::vector<std::string> arguments, done_handler done);

    /// Runs a script that changes a semaphore, once even if it has to be sent several times.
    void change(session_engine& engine, std::string_view script, const std::string& name,
                const std::vector<std::string>& more, done_handler done);

    /// Lets the server serve the waiters that its last script has not reached.
    void go_on(session_engine& engine, const std::string& key);

    /// The semaphore that somebody waits for, or a new one.
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

    void send(session_engine& engine, message what, done_handler done);
    void forget(const std::string& name, const async_semaphore* object);

    const std::string nonce_ = random_text(2);
    // The names of calls. They belong to the session's strand.
    std::uint64_t calls_ = 0;
    std::vector<std::string> last_calls_;
    std::vector<std::size_t> free_slots_;
    // Guards the semaphores that somebody waits for.
    std::mutex mutex_;
    std::unordered_map<std::string, std::weak_ptr<async_semaphore>> waited_for_;
};

}  // namespace turnstile::redis::detail

#endif

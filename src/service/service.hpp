// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_SERVICE_HPP
#define TURNSTILE_SERVICE_SERVICE_HPP

#include "service/decode.hpp"
#include "service/events.hpp"
#include "service/message.hpp"
#include "service/notify.hpp"
#include "service/snapshot.hpp"
#include "service/store.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace turnstile::service {

/// What a client may do. Each role includes the ones before it.
enum class role
{
    nobody,
    read,
    use,
    admin,
};

/// The settings of the service itself; those of connections are in @ref server_settings.
struct service_settings
{
    /// The bearer token of each role from role::read on. If a role has no token, no client has that role.
    /// If all tokens are empty, every client is an administrator.
    std::array<std::string, 3> tokens;
    /// The longest time that a `down` may wait.
    std::chrono::seconds max_wait{3600};
    /// The longest lease of a permit.
    std::chrono::seconds max_lease{86'400};
    /// The largest number of waiting clients.
    std::size_t max_waiters = 100'000;
    /// The largest number of waiting clients with the same address.
    std::size_t max_waiters_per_client = 100'000;
    /// The file that keeps the semaphores while the server does not run; none if it is empty.
    std::string snapshot;
    /// The URL of the Redis server that keeps the semaphores; they are in memory if it is empty.
    std::string redis;
    notify_settings notify;
};

/**
 * @brief Answers requests: the routes, the format of bodies and answers, and the permissions.
 *
 * It knows neither sockets nor the syntax of HTTP.
 *
 * @par Thread safety
 * Unsafe: everything runs on the context.
 */
class service
{
public:
    /// @throws std::exception  if a setting is wrong, or if a file cannot be used.
    service(boost::asio::io_context& context, service_settings settings);

    service(const service&) = delete;
    service& operator=(const service&) = delete;

    ~service();

    /// Answers a request, perhaps with response::later. The request has to live until the answer
    /// is complete.
    awaitable<response> answer(const request& message);

    /// Counts an answer that is sent.
    void count(unsigned status) { ++answers_[status]; }

    /// Answers the waiters. Afterwards `/readyz` fails.
    void close();

    /// To be called after the last answer: writes the snapshot through to the disk, if there is one.
    void sync();

private:
    struct route;
    static const std::array<route, 19> routes;

    awaitable<response> create(const request& message, const std::string& name);
    awaitable<response> remove(const request& message, const std::string& name);
    awaitable<response> value(const request& message, const std::string& name);
    awaitable<response> up(const request& message, const std::string& name);
    awaitable<response> down(const request& message, const std::string& name);
    awaitable<response> notify(const request& message, const std::string& name);
    awaitable<response> renew(const request& message, const std::string& name);
    awaitable<response> free(const request& message, const std::string& name);
    awaitable<response> detail(const request& message, const std::string& name);
    awaitable<response> list(const request& message, const std::string& name);
    awaitable<response> follow(const request& message, const std::string& name);
    awaitable<response> metrics(const request& message, const std::string& name);
    awaitable<response> file(const request& message, const std::string& name);
    awaitable<response> healthy(const request& message, const std::string& name);
    awaitable<response> ready(const request& message, const std::string& name);

    [[nodiscard]] down_request down_request_in(const request& message, const fields& body,
                                               std::chrono::milliseconds wait) const;
    awaitable<response> down_later(std::string name, down_request wanted);
    awaitable<void> call_back(std::string id, notify_target target, std::string name,
                              down_request wanted);
    bool add_waiter(const std::string& client);
    void remove_waiter(const std::string& client);
    [[nodiscard]] const route& find_route(const request& message, std::string& name) const;
    void check_role(const request& message, role needed) const;
    [[nodiscard]] role role_of(const request& message) const;

    boost::asio::io_context& context_;
    service_settings settings_;
    std::unique_ptr<store> store_;
    events events_;
    notifier notifier_;
    std::size_t call_backs_ = 0;
    std::optional<snapshot> snapshot_;
    bool closing_ = false;
    std::map<unsigned, std::uint64_t> answers_;
    std::map<std::string, std::size_t> waiters_of_;
};

}  // namespace turnstile::service

#endif

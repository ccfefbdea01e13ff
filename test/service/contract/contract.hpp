// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_CONTRACT_CONTRACT_HPP
#define TURNSTILE_TEST_SERVICE_CONTRACT_CONTRACT_HPP

#include "service/event_stream.hpp"
#include "service/http_client.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>

// The contract of the HTTP service, see docs/service.md. It starts a server. To test another one, set
// TURNSTILE_SERVICE_URL to its base URL, for instance http://127.0.0.1:1880. If the variable
// TURNSTILE_SERVICE_BACKEND is `redis`, the server keeps the semaphores in Redis.

namespace turnstile::test::contract {

/// Whether the semaphores are in Redis. Such a server has lower limits, and reports changes by others as `changed`.
[[nodiscard]] bool is_over_redis();

/// The largest value of a semaphore.
[[nodiscard]] std::int64_t largest_value();

/// The server under test.
[[nodiscard]] const site& server();

/// The method, target and status of each answer that the tests have received.
[[nodiscard]] const std::set<std::tuple<std::string, std::string, int>>& answers_seen();

inline const std::string form = "application/x-www-form-urlencoded";

/// A name that no other test uses, even if the server is not new. In the list, no other name is between this name
/// and the same text without its last character.
[[nodiscard]] std::string new_name();

/// A JSON object with a name, and the fields in @p more.
[[nodiscard]] std::string named(const std::string& name, const std::string& more = {});

/// The state of a semaphore in an answer.
[[nodiscard]] std::string state(const std::string& name, const std::string& value);

http_answer post(const std::string& target, const std::string& body);

/// Creates a semaphore with this value, and returns its name.
[[nodiscard]] std::string created(const std::string& value);

http_answer value_of(const std::string& name);

void check(const http_answer& answer, int status, const std::string& body);

/// Starts a `down` that waits, and returns when the server lists @p waiters waiters.
[[nodiscard]] http_client waiting(const std::string& name, std::size_t waiters,
                                  const std::string& more = {});

/// The id of the permit in an answer.
[[nodiscard]] std::string permit_of(const http_answer& answer);

}  // namespace turnstile::test::contract

#endif

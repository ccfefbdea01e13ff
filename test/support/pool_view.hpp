// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_POOL_VIEW_HPP
#define TURNSTILE_TEST_SUPPORT_POOL_VIEW_HPP

#include <cstdint>
#include <redis/protocol/names.hpp>
#include <sstream>
#include <string>
#include <support/pool_state.hpp>
#include <support/redis_server.hpp>
#include <vector>

namespace turnstile::test {

/// The keys of a semaphore or shared mutex in the server.
class pool_view
{
public:
    pool_view(const redis_server& server, const std::string& name,
              const std::string& kind = "semaphore")
        : keys(all_pool_keys(redis::detail::object_key("turnstile", kind, name)))
        , server_(&server)
    {
    }

    /// A time or a number in the state; 0 if it is absent.
    [[nodiscard]] std::int64_t number(const std::string& word) const
    {
        const std::string text = pool_word(server_->cli({"HGET", keys[0], "state"}), word);
        return text.empty() ? 0 : std::stoll(text);
    }

    /// The highest fencing token of all grants.
    [[nodiscard]] std::uint64_t last_fence() const
    {
        return static_cast<std::uint64_t>(number("fence"));
    }

    /// The number of held units according to the state.
    [[nodiscard]] std::int64_t held() const { return number("held"); }
    /// The number of units that are taken without a lease.
    [[nodiscard]] std::int64_t outside() const { return number("outside"); }

    /// The numbers of waiters and of holders.
    [[nodiscard]] int queued() const { return std::stoi(server_->cli({"ZCARD", keys[1]})); }
    [[nodiscard]] int holders() const { return std::stoi(server_->cli({"ZCARD", keys[3]})); }

    /// The end of the first lease; 0 if there is none.
    [[nodiscard]] std::uint64_t first_deadline() const
    {
        const std::string text = server_->cli({"ZRANGE", keys[3], "0", "0", "WITHSCORES"});
        return text.empty() ? 0 : std::stoull(text.substr(text.find('\n') + 1));
    }

    /// Whether the units of all holders add up to the sum in the state. Both are read at the same time.
    [[nodiscard]] bool adds_up() const
    {
        const std::string script =
            "local sum, all = 0, redis.call('ZRANGE', KEYS[1] .. '{holders}', 0, -1) "
            "for _, id in ipairs(all) do "
            "sum = sum + string.match(redis.call('HGET', KEYS[1], 'h ' .. id), '^%d+') end "
            "return {tostring(sum), redis.call('HGET', KEYS[1], 'state')}";
        std::istringstream lines(server_->cli({"EVAL", script, "1", keys[0]}));
        std::int64_t sum = 0;
        std::string state;
        std::getline(lines >> sum >> std::ws, state);
        const auto number_of = [&](const char* word) { return std::stoll(pool_word(state, word)); };
        return sum == number_of("held") && sum + number_of("outside") <= number_of("capacity");
    }

    /// The hash, the queue, the remembered calls, and the holders.
    std::vector<std::string> keys;

private:
    const redis_server* server_;
};

}  // namespace turnstile::test

#endif

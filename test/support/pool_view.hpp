// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_POOL_VIEW_HPP
#define TURNSTILE_TEST_SUPPORT_POOL_VIEW_HPP

#include <cstdint>
#include <redis/names.hpp>
#include <string>
#include <support/redis_server.hpp>

namespace turnstile::test {

/// A semaphore, or a shared mutex, as it lies in the server.
class pool_view
{
public:
    pool_view(const redis_server& server, const std::string& name,
              const std::string& kind = "semaphore")
        : keys(redis::detail::pool_keys("turnstile", kind, name))
        , server_(&server)
    {
    }

    /// A time or a number of the state; 0 if there is none.
    [[nodiscard]] std::int64_t number(const std::string& field) const
    {
        const std::string text = server_->cli({"HGET", keys[0], field});
        return text.empty() ? 0 : std::stoll(text);
    }

    /// How many units the state says that holders have.
    [[nodiscard]] std::int64_t held() const { return number("held"); }
    /// How many are away without a lease.
    [[nodiscard]] std::int64_t outside() const { return number("outside"); }

    /// How many wait, and how many hold.
    [[nodiscard]] int queued() const { return std::stoi(server_->cli({"ZCARD", keys[1]})); }
    [[nodiscard]] int holders() const { return std::stoi(server_->cli({"ZCARD", keys[3]})); }

    /// When the first lease ends; 0 if there is none.
    [[nodiscard]] std::uint64_t first_deadline() const
    {
        const std::string text = server_->cli({"ZRANGE", keys[3], "0", "0", "WITHSCORES"});
        return text.empty() ? 0 : std::stoull(text.substr(text.find('\n') + 1));
    }

    /// What the holders have one by one, added up: the sum that the state has to know. Both are read at
    /// the same moment.
    [[nodiscard]] bool adds_up() const
    {
        const std::string script =
            "local sum, all = 0, redis.call('ZRANGE', KEYS[2], 0, -1) "
            "for _, id in ipairs(all) do "
            "sum = sum + string.match(redis.call('HGET', KEYS[3], id), '^%d+') end "
            "local v = redis.call('HMGET', KEYS[1], 'held', 'outside', 'capacity') "
            "return sum == v[1] + 0 and v[1] + v[2] <= v[3] + 0 and 'yes' or 'no'";
        return server_->cli({"EVAL", script, "3", keys[0], keys[3], keys[4]}) == "yes";
    }

    redis::detail::lock_keys keys;

private:
    const redis_server* server_;
};

}  // namespace turnstile::test

#endif

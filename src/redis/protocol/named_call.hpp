// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_NAMED_CALL_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_NAMED_CALL_HPP

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/names.hpp"

namespace turnstile::redis::detail {

/// A call that the server executes once, although the client may have to send it several times: the server remembers
/// the call's name until another call names it as answered.
struct named_call
{
    /// The name of the call; empty if it may be executed several times.
    std::string name;
    /// The name of an earlier call that the server may forget.
    std::string before;
    /// Whether the call was also sent over a former connection. The server may then receive that copy after it has
    /// answered the call, so it must not forget the call.
    bool repeated = false;
    /// The last time at which the server had certainly not executed the call. For an arrival at a barrier: at which the
    /// round had certainly not ended.
    local_time since{};

    /// Notes that the call is about to be sent. Returns false if the server may have executed it before, and may have
    /// forgotten that: it remembers a call for an hour, and its clock may be faster than this one.
    [[nodiscard]] bool may_send(local_time now, std::int64_t drift)
    {
        constexpr local_time memory = std::chrono::hours(1);
        if (!repeated)
            since = now;
        return now - since < memory - memory / drift;
    }
};

/// The names of an object's calls.
class call_names
{
public:
    /// Gives the call a name, and makes it name an answered call that the server may forget.
    void begin(named_call& call, std::uint64_t nonce, std::uint64_t number)
    {
        call.name = wake_name(nonce, 0) + '+' + std::to_string(number);
        if (answered_.empty())
            return;
        call.before = std::move(answered_.back());
        answered_.pop_back();
    }

    /// Ends a call. A later call then names, as forgettable, this call; or, if the server has not @p executed it, the
    /// earlier call that this one named.
    void end(named_call& call, bool executed = true)
    {
        // The server may still receive a copy of a repeated call.
        if (executed && call.repeated)
            return;
        std::string& forgettable = executed ? call.name : call.before;
        if (!forgettable.empty())
            answered_.push_back(std::exchange(forgettable, {}));
    }

private:
    // The names of answered calls, which the server may forget.
    std::vector<std::string> answered_;
};

}  // namespace turnstile::redis::detail

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/throw_exception.hpp>
#include <string>
#include <turnstile/redis/barrier.hpp>

#include "redis/objects/gate_support.hpp"

namespace turnstile::redis {

namespace {

// The largest number that the scripts can count exactly.
constexpr std::ptrdiff_t most = (std::ptrdiff_t(1) << 52U) - 1;

std::int64_t checked(std::ptrdiff_t participants)
{
    if (participants < 1 || participants > most)
        boost::throw_exception(system_error(turnstile::errc::invalid_count,
                                            "barrier of " + std::to_string(participants) +
                                                ", at least 1 and at most " + std::to_string(most) +
                                                " are possible"));
    return participants;
}

}  // namespace

barrier::barrier(session& session, std::string_view name, std::ptrdiff_t participants)
    : gate_(detail::make_gate(session, "barrier", name, checked(participants), memory))
{
}

barrier::~barrier()
{
    detail::forget(gate_);
}

}  // namespace turnstile::redis

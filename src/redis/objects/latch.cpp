// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/throw_exception.hpp>
#include <string>
#include <turnstile/redis/latch.hpp>

#include "redis/objects/gate_support.hpp"

namespace turnstile::redis {

namespace {

std::int64_t checked(std::ptrdiff_t count)
{
    if (count < 0 || count > latch::max_count)
        boost::throw_exception(
            system_error(turnstile::errc::invalid_count,
                         "latch of " + std::to_string(count) + ", at least 0 and at most " +
                             std::to_string(latch::max_count) + " are possible"));
    return count;
}

}  // namespace

latch::latch(session& session, std::string_view name, std::ptrdiff_t count)
    : gate_(detail::make_gate(session, "latch", name, checked(count), memory))
{
}

latch::~latch()
{
    detail::forget(gate_);
}

}  // namespace turnstile::redis

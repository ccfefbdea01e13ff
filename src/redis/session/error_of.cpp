// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/error_of.hpp"

#include <boost/asio/error.hpp>
#include <turnstile/redis/error.hpp>

#include "redis/transport/diagnosis.hpp"

namespace turnstile::redis::detail {

error_code error_of(client_result result, std::string_view text)
{
    if (is_missing_right(text) && result != client_result::unknown)
        return errc::missing_permission;
    switch (result)
    {
    case client_result::ok:
    case client_result::open:
    case client_result::exists:
    case client_result::busy:
        return {};
    case client_result::cancelled:
        return boost::asio::error::operation_aborted;
    case client_result::lost:
        return turnstile::errc::lost;
    case client_result::unknown:
        return errc::unknown_outcome;
    case client_result::missing:
        return errc::no_such_object;
    case client_result::unknown_job:
        return turnstile::errc::unknown_job;
    case client_result::foreign_layout:
        return errc::foreign_layout;
    case client_result::wrong_type:
        return errc::wrong_type;
    case client_result::damaged:
        return errc::bad_state;
    case client_result::capacity_mismatch:
        return errc::capacity_mismatch;
    case client_result::impossible:
        return turnstile::errc::invalid_count;
    case client_result::excess:
        return turnstile::errc::over_release;
    case client_result::empty:
        return turnstile::errc::no_participants;
    case client_result::fence_regressed:
        return errc::fence_regressed;
    case client_result::refused:
        break;
    }
    return errc::server_error;
}

error_code error_of_refusal(std::string_view word)
{
    const error_code code = error_of(result_of(word).value_or(client_result::refused));
    return code ? code : make_error_code(errc::server_error);
}

}  // namespace turnstile::redis::detail

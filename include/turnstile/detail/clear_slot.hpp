// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_CLEAR_SLOT_HPP
#define TURNSTILE_DETAIL_CLEAR_SLOT_HPP

#include <boost/asio/associated_cancellation_slot.hpp>

namespace turnstile::detail {

/// Clears the cancellation slot of a handler, if it has one. Required before the handler is called: a later
/// signal must not reach an operation that has ended.
template <class Handler>
void clear_slot_of(const Handler& handler) noexcept
{
    if (auto slot = boost::asio::get_associated_cancellation_slot(handler); slot.is_connected())
        slot.clear();
}

}  // namespace turnstile::detail

#endif

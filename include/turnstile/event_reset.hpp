// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EVENT_RESET_HPP
#define TURNSTILE_EVENT_RESET_HPP

namespace turnstile {

/// Selects whether an event stays set or is reset by a waiter.
enum class event_reset
{
    /// Only reset() resets the event.
    manual,
    /// A waiter that passes also resets the event.
    automatic,
};

}  // namespace turnstile

#endif

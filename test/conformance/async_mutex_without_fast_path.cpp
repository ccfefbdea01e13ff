// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The same as async_mutex.cpp where co_await goes the documented way of every Asio operation.

#define TURNSTILE_DISABLE_AWAIT_FAST_PATH

#include "async_mutex.cpp"  // NOLINT(bugprone-suspicious-include)

static_assert(!turnstile::has_await_fast_path);

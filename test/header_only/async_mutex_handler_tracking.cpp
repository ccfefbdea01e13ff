// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Each completion token once more, with Asio's handler tracking, which gives its operations another form.

#define BOOST_ASIO_ENABLE_HANDLER_TRACKING

#include "../core/async_mutex_tokens.cpp"  // NOLINT(bugprone-suspicious-include)

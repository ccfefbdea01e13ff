// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The conformance suite of contributions to the state of the monitor, over a real server.

#include <support/redis_monitor_backend.hpp>

#include <conformance/contribution_suite.hpp>

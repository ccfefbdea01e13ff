// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The executor types once more, without the functions of the Networking TS that Asio's executors have by default.

#define BOOST_ASIO_NO_TS_EXECUTORS

#include "../core/executor_parameter.cpp"  // NOLINT(bugprone-suspicious-include)

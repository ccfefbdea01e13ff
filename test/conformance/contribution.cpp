// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Runs the conformance suite for contributions to local monitors, with two kinds of executor and synchronization.

#include "local_monitor_provider.hpp"

#include <conformance/contribution_suite.hpp>

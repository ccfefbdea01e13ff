// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The runner of every test program. The tests themselves include <boost/test/unit_test.hpp>.
#define BOOST_TEST_MODULE turnstile
#include <boost/test/included/unit_test.hpp>

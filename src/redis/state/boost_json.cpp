// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The non-template functions of Boost.JSON, compiled once, so that neither this library nor its users have to
// link Boost.JSON.

#include <boost/json/src.hpp>

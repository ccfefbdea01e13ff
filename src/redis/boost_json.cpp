// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The functions of Boost.JSON that are not templates, compiled once: so this library needs no other, and
// neither does who links it.

#include <boost/json/src.hpp>

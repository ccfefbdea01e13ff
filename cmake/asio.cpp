// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Defines the functions of Asio that BOOST_ASIO_SEPARATE_COMPILATION removes from its headers.
#include <boost/asio/impl/src.hpp>

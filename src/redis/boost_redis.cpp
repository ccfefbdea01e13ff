// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The functions of Boost.Redis that are not templates, compiled once.
//
// Asio, of which this is mostly made, comes in two forms: header-only (its functions are inline) and,
// with BOOST_ASIO_SEPARATE_COMPILATION, compiled once in the program. To mix the two in one program
// breaks the one-definition rule: the same function is inline here and is not there. The library has
// no way to know what the programs do that it is linked to, and it must not bring Asio's functions
// along, lest it clash with a program's own. So it does what nearly all programs do: header-only, and
// that holds for asio::ssl, too. Whoever links turnstile::redis leaves that macro alone; our own tests
// of the local backend, which set it to save time, do not link it.
#ifdef BOOST_ASIO_SEPARATE_COMPILATION
#error "turnstile::redis needs Asio header-only: do not define BOOST_ASIO_SEPARATE_COMPILATION"
#endif

#include <boost/redis/src.hpp>

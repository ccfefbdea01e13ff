// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The non-template functions of Boost.Redis, compiled once.
//
// Boost.Redis uses Asio everywhere. Asio has two forms: header-only (its functions are inline) and, with
// BOOST_ASIO_SEPARATE_COMPILATION, compiled once in the program. A program that mixes the two violates the
// one-definition rule. This library cannot know the form that a program uses, and it must not define Asio's
// functions, because they could clash with those of the program. So it uses Asio header-only, as nearly all
// programs do, including asio::ssl. A program that links turnstile::redis must not define that macro. Our tests of
// the local backend, which define it to save time, do not link this library.
#ifdef BOOST_ASIO_SEPARATE_COMPILATION
#error "turnstile::redis needs Asio header-only: do not define BOOST_ASIO_SEPARATE_COMPILATION"
#endif

#include <boost/redis/src.hpp>

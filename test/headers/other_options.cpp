// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A program that is compiled with an option of Asio that the library was built without.

#include <boost/asio/io_context.hpp>
#include <turnstile/redis/session.hpp>

int main()
{
    boost::asio::io_context context;
    const turnstile::redis::session session(context, turnstile::redis::config());
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_PRINT_HPP
#define TURNSTILE_TEST_SUPPORT_PRINT_HPP

#include <ostream>
#include <turnstile/error.hpp>
#include <turnstile/owner_token.hpp>

// Lets Boost.Test print the library's types.

namespace turnstile {

inline std::ostream& boost_test_print_type(std::ostream& stream, errc e)
{
    return stream << make_error_code(e);
}

inline std::ostream& boost_test_print_type(std::ostream& stream, owner_token token)
{
    return stream << token.value();
}

}  // namespace turnstile

#endif

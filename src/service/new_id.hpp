// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_NEW_ID_HPP
#define TURNSTILE_SERVICE_NEW_ID_HPP

#include <string>

namespace turnstile::service {

/// An id that cannot be guessed: 32 hexadecimal digits.
[[nodiscard]] std::string new_id();

}  // namespace turnstile::service

#endif

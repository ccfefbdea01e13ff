// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/new_id.hpp"

#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <system_error>

namespace turnstile::service {

std::string new_id()
{
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        throw std::system_error(errno, std::generic_category(), "getrandom");
    return fmt::format("{:02x}", fmt::join(bytes, ""));
}

}  // namespace turnstile::service

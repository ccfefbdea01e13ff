// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SERVICE_PAGE_HPP
#define TURNSTILE_SERVICE_PAGE_HPP

#include <span>
#include <string_view>

namespace turnstile::service {

/// A file of src/service/page, which the build embeds.
struct page_file
{
    std::string_view path;
    std::string_view content_type;
    std::string_view text;
};

[[nodiscard]] std::span<const page_file> page_files();

}  // namespace turnstile::service

#endif

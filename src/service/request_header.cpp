// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/request_header.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/field.hpp>
#include <cstddef>
#include <cstdint>
#include <random>

namespace turnstile::service {

namespace beast = boost::beast;
namespace http = boost::beast::http;

std::string new_request_id()
{
    static const std::string start = std::to_string(std::random_device()());
    static std::uint64_t last = 0;
    return start + '-' + std::to_string(++last);
}

bool is_request_id(std::string_view text) noexcept
{
    return !text.empty() && text.size() <= 128 &&
           std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

std::string_view take_authority(std::string_view& target)
{
    for (const std::string_view scheme : {"http://", "https://"})
    {
        if (!beast::iequals(target.substr(0, scheme.size()), scheme))
            continue;
        target.remove_prefix(scheme.size());
        const std::size_t end = std::min(target.find_first_of("/?"), target.size());
        const std::string_view authority = target.substr(0, end);
        target.remove_prefix(end);
        if (!target.starts_with('/'))
            target = "/";
        return authority;
    }
    return {};
}

std::string broken_rule(const http::request_header<>& header)
{
    const std::size_t hosts = header.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && header.version() >= 11))
        return "a request needs one header Host";
    // A proxy and this server might read different ones.
    if (header.count(http::field::origin) > 1)
        return "a request has one header Origin at most";
    if (header.count(http::field::transfer_encoding) != 0 &&
        !beast::iequals(header[http::field::transfer_encoding], "chunked"))
        return "the only transfer encoding is chunked";
    return {};
}

}  // namespace turnstile::service

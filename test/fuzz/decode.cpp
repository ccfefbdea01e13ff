// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// libFuzzer on the texts that clients of the service send. The first byte selects the format; the corpus uses j, f, p, u
// and n.

#include "service/decode.hpp"
#include "service/notify.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace {

using namespace turnstile::service;

void require(bool promise)
{
    if (!promise)
        std::abort();
}

void check_text(const std::string& text)
{
    require(is_utf8(text));
    // Answers contain the texts of requests, so they have to be read as the same ones.
    const auto again = decode_json("{\"name\":" + quoted(text) + '}');
    require(again.has_value());
    const auto* const found = text_in(*again, "name");
    require(found != nullptr && *found == text);
}

void check_fields(const std::optional<fields>& decoded)
{
    if (!decoded)
        return;
    for (const char* const name : {"name", "value", "n", "wait", "lease", "permit", "url", ""})
    {
        const auto* const found = decoded->if_contains(name);
        if (found == nullptr)
            continue;
        if (const auto* const text = found->if_string())
            check_text(std::string(*text));
        const auto number = to_number(*found);
        require(!number || !std::isnan(*number));
    }
}

void check_url(std::string_view url)
{
    const auto target = parse_url(url);
    if (!target)
        return;
    // The parts become lines of a request.
    const std::string parts = target->host + target->port + target->path;
    for (const char c : parts)
        require(c > ' ' && c <= '~');
    require(!target->host.empty() && !target->port.empty());
    require(target->path.starts_with('/'));
    // The operator has allowed a host, which must be the one that is called.
    require(target->host.find_first_of("/@?#") == std::string::npos);
    const auto again = parse_url((target->tls ? "https://" : "http://") + target->host + ':' +
                                 target->port + target->path);
    require(again && again->host == target->host && again->port == target->port);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size == 0)
        return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0])
    {
    case 'f':
        check_fields(decode_form(text));
        break;
    case 'p':
        if (const auto decoded = decode_percent(text))
            check_text(*decoded);
        break;
    case 'u':
        check_url(text);
        break;
    case 'n':
        if (const auto number = to_number(boost::json::string(text)))
            require(std::isfinite(*number));
        break;
    default:
        check_fields(decode_json(text));
    }
    return 0;
}

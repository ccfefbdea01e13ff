// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/identity.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <unistd.h>

namespace turnstile::redis::detail {

namespace {

/// Makes a text valid for CLIENT SETNAME.
std::string printable(std::string text)
{
    std::ranges::replace_if(text, [](char c) { return !is_allowed_in_client_name(c); }, '_');
    return text.empty() ? "unknown" : text;
}

std::string host_name()
{
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

session_identity identify(const config& settings)
{
    session_identity result{settings.client_name, printable(program_invocation_short_name),
                            printable(host_name()), ::getpid()};
    if (result.name.empty())
        result.name = result.program + '@' + result.host + ':' + std::to_string(result.process);
    return result;
}

std::string to_text(const session_identity& identity)
{
    return identity.name + ' ' + identity.program + ' ' + identity.host + ' ' +
           std::to_string(identity.process);
}

session_identity parse_identity(std::string_view text)
{
    const auto next = [&text]
    {
        const std::size_t end = std::min(text.find(' '), text.size());
        std::string word(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        return word;
    };
    session_identity result{next(), next(), next()};
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const bool complete = std::from_chars(begin, end, result.process).ptr == end;
    return complete && !text.empty() ? result : session_identity();
}

}  // namespace turnstile::redis::detail

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SENT_COMMAND_HPP
#define TURNSTILE_TEST_SUPPORT_SENT_COMMAND_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "redis/protocol/gate_client.hpp"
#include "redis/protocol/protocol.hpp"
#include "redis/protocol/word_list.hpp"

namespace turnstile::test {

/// The words of a list as texts.
[[nodiscard]] inline std::vector<std::string> texts_of(const redis::detail::word_list& words)
{
    std::vector<std::string> result;
    std::string_view rest = words.encoded();
    while (!rest.empty())
    {
        // $SIZE, the end of the line, the word, and the end of the line again
        const std::size_t begin = rest.find('\n') + 1;
        const std::size_t size = std::stoull(std::string(rest.substr(1, begin)));
        result.emplace_back(rest.substr(begin, size));
        rest.remove_prefix(begin + size + 2);
    }
    return result;
}

/// A command of a protocol machine, with its words as texts.
struct sent_command
{
    sent_command() = default;
    explicit sent_command(const redis::detail::command& what)
        : number(what.number)
        , op(what.op)
        , keys(texts_of(what.keys))
        , arguments(texts_of(what.arguments))
        , kind(what.kind)
    {
    }

    std::uint64_t number = 0;
    redis::detail::operation op = redis::detail::operation::acquire;
    std::vector<std::string> keys;
    std::vector<std::string> arguments;
    redis::detail::object_kind kind = redis::detail::object_kind::lock;
};

/// A command of a machine for gates; likewise.
struct sent_gate_command
{
    sent_gate_command() = default;
    explicit sent_gate_command(const redis::detail::gate_command& what)
        : number(what.number)
        , script(what.script)
        , keys(texts_of(what.keys))
        , arguments(texts_of(what.arguments))
    {
    }

    std::uint64_t number = 0;
    std::string_view script;
    std::vector<std::string> keys;
    std::vector<std::string> arguments;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_SCRIPT_ENGINE_HPP
#define TURNSTILE_TEST_SUPPORT_SCRIPT_ENGINE_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "redis_store.hpp"

namespace turnstile::test {

/// Whether the simulations run in full. They do not in debug builds and with a sanitizer, where they are five to thirty
/// times slower.
[[nodiscard]] bool simulations_run_in_full() noexcept;

/// Replaces a piece of a script, to switch off a safeguard.
struct script_patch
{
    /// The file, without its extension.
    std::string file;
    std::string piece;
    std::string replacement;
};

/// The text of a file of src/redis/lua, without its extension.
[[nodiscard]] std::string script_file(std::string_view name);

/// The names of all scripts, without common.lua and the prologues.
[[nodiscard]] std::vector<std::string> script_names();

/// A script as it is sent to a server, with patches: see cmake/embed_lua.cmake.
[[nodiscard]] std::string script_text(std::string_view name,
                                      const std::vector<script_patch>& patches = {});

/**
 * Runs the scripts of the Redis backend in a Lua interpreter like that of Redis, on a simulated memory.
 *
 * Each script is compiled once: when it runs first, or by the constructor if there are patches. A script that uses an
 * unsupported command or a global variable ends the test.
 */
class script_engine
{
public:
    /// The piece of each patch has to occur exactly once.
    explicit script_engine(const std::vector<script_patch>& patches = {});
    ~script_engine();
    script_engine(const script_engine&) = delete;
    script_engine& operator=(const script_engine&) = delete;

    /// Compiles another script, from its text.
    void add(const std::string& name, const std::string& text);

    /// Runs a script.
    redis_reply run(redis_store& store, std::string_view name, const std::vector<std::string>& keys,
                    const std::vector<std::string>& arguments);

    /// How many commands the last script called, and how many elements their replies listed.
    [[nodiscard]] std::size_t effort() const;

private:
    struct interpreter;
    std::unique_ptr<interpreter> lua_;
};

}  // namespace turnstile::test

#endif

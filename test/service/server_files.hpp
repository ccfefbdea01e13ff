// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_SERVER_FILES_HPP
#define TURNSTILE_TEST_SERVICE_SERVER_FILES_HPP

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace turnstile::test {

/// A new folder for the snapshot and the log of a server.
struct server_files
{
    server_files()
    {
        std::string name = "/tmp/turnstile_XXXXXX";
        BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }

    server_files(const server_files&) = delete;
    server_files& operator=(const server_files&) = delete;

    ~server_files() { std::filesystem::remove_all(path); }

    [[nodiscard]] std::string snapshot() const { return path / "state"; }

    [[nodiscard]] std::string log() const { return path / "log"; }

    [[nodiscard]] std::string read(const std::string& name) const
    {
        std::ifstream stream(path / name, std::ios::binary);
        return {std::istreambuf_iterator<char>(stream), {}};
    }

    void write(const std::string& text) const
    {
        std::ofstream(snapshot(), std::ios::binary) << text;
    }

    [[nodiscard]] std::vector<std::string> arguments() const { return {"--snapshot", snapshot()}; }

    std::filesystem::path path;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_TLS_FILES_HPP
#define TURNSTILE_TEST_SUPPORT_TLS_FILES_HPP

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace turnstile::test {

/// A self-signed certificate for one name, and its key, created by the program openssl.
class tls_files
{
public:
    /// @p name is a subject alternative name, such as DNS:localhost.
    explicit tls_files(const std::string& name)
    {
        std::string folder =
            (std::filesystem::temp_directory_path() / "turnstile-tls-XXXXXX").string();
        if (::mkdtemp(folder.data()) == nullptr)
            throw std::runtime_error("no temporary folder");
        folder_ = folder;
        const std::string command =
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            "-subj /CN=turnstile -addext subjectAltName=" +
            name + " -keyout " + key() + " -out " + certificate() + " 2> " +
            (folder_ / "log").string();
        // Tests have one thread here, and the words are the test's own.
        // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor)
        const int status = std::system(command.c_str());
        if (status != 0)
            throw std::runtime_error("failed: " + command);
    }

    tls_files(const tls_files&) = delete;
    tls_files& operator=(const tls_files&) = delete;

    ~tls_files()
    {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    [[nodiscard]] std::string certificate() const { return (folder_ / "certificate.pem").string(); }
    [[nodiscard]] std::string key() const { return (folder_ / "key.pem").string(); }

private:
    std::filesystem::path folder_;
};

}  // namespace turnstile::test

#endif

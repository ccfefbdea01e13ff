// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_REDIS_SERVER_HPP
#define TURNSTILE_TEST_SUPPORT_REDIS_SERVER_HPP

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace turnstile::test {

/// The reply of a server to one command, with nested values one level deep on separate lines. Throws a
/// std::runtime_error with the server's text if it is an error.
[[nodiscard]] std::string redis_command(const std::filesystem::path& unix_socket,
                                        const std::string& password,
                                        const std::vector<std::string>& words);

/**
 * @brief A real, private Redis server on a free port of the loopback and a unix socket.
 *
 * It stores nothing on the disk unless its arguments say so. It is killed when the starting thread ends,
 * so start it from the test's main thread. The program is $TURNSTILE_REDIS_SERVER, or redis-server from the
 * PATH, or the same program under its other name in Debian's redis-tools. If the server does not start, the
 * constructor throws, which fails the test: tests are never skipped.
 */
class redis_server
{
public:
    /// Starts a server with additional arguments, such as {"--requirepass", "secret"}.
    explicit redis_server(std::vector<std::string> arguments = {});
    /// Starts a Sentinel that monitors a server under this name, and decides about failovers.
    redis_server(const redis_server& master, const std::string& name);
    /// The same for a server that is reached at another port, and with additional lines of configuration.
    redis_server(std::uint16_t master_port, const std::string& name, const std::string& lines);
    /// Kills it, and removes its folder.
    ~redis_server();
    redis_server(const redis_server&) = delete;
    redis_server& operator=(const redis_server&) = delete;

    [[nodiscard]] std::uint16_t port() const { return port_; }
    /// The folder of its files. A test may add files before a restart().
    [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
    [[nodiscard]] std::filesystem::path unix_socket() const { return folder_ / "redis.sock"; }
    [[nodiscard]] std::string url() const;
    [[nodiscard]] std::string unix_url() const;
    /// Differs after each start.
    [[nodiscard]] std::string run_id() const;
    [[nodiscard]] pid_t pid() const { return pid_; }

    /// Sends a command as the default user and returns the reply; see redis_command.
    [[nodiscard]] std::string cli(const std::vector<std::string>& words) const;
    /// The same, but ignores the reply unless it is an error.
    void run(const std::vector<std::string>& words) const { static_cast<void>(cli(words)); }
    /// A field of the answer to INFO.
    [[nodiscard]] std::string info(const std::string& field) const;

    /// Sends SIGTERM and waits for the end.
    void stop();
    /// Kills it (SIGKILL).
    void kill();
    /// Stops the process (SIGSTOP), and continues it (SIGCONT).
    void pause() const;
    void resume() const;
    /// Starts it again on the same port after stop() or kill(). Waits if the port is in use.
    void start();
    /// kill() and start(). It forgets what it does not store on the disk.
    void restart();

private:
    void make_folder();
    void start_on_a_free_port();
    void try_to_start();
    void write_sentinel_file() const;
    [[nodiscard]] std::vector<std::string> command_line() const;
    void spawn();
    void wait_until_ready();
    void forget_cut_script();
    [[nodiscard]] std::string ping() const;
    void wait_for_end();

    std::vector<std::string> arguments_;
    /// The lines of a Sentinel's configuration.
    std::string sentinel_;
    std::string password_;
    std::filesystem::path folder_;
    std::uint16_t port_ = 0;
    pid_t pid_ = 0;
};

/// A port of the loopback that is free at present.
[[nodiscard]] std::uint16_t free_port();

/// A port of the loopback on which nothing can listen during the lifetime of this object, which binds it.
class closed_port
{
public:
    [[nodiscard]] std::uint16_t number() const { return socket_.local_endpoint().port(); }

private:
    boost::asio::io_context context_;
    boost::asio::ip::tcp::socket socket_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis_server.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <poll.h>
#include <random>
#include <sstream>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace turnstile::test {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds time_limit{20};

/// A blocking RESP2 connection for one command.
class conversation
{
public:
    explicit conversation(const std::filesystem::path& unix_socket)
    {
        socket_.connect({unix_socket.string()});
    }

    std::string ask(const std::vector<std::string>& words)
    {
        std::ostringstream request;
        request << '*' << words.size() << "\r\n";
        for (const std::string& each : words)
            request << '$' << each.size() << "\r\n" << each << "\r\n";
        asio::write(socket_, asio::buffer(request.str()));
        return read();
    }

private:
    std::string line()
    {
        const std::size_t size = asio::read_until(socket_, asio::dynamic_buffer(buffer_), "\r\n");
        return take(size, 2);
    }

    std::string take(std::size_t size, std::size_t end)
    {
        std::string taken = buffer_.substr(0, size - end);
        buffer_.erase(0, size);
        return taken;
    }

    std::string bulk(long size)
    {
        if (size < 0)
            return {};
        const std::size_t whole = static_cast<std::size_t>(size) + 2;
        if (buffer_.size() < whole)
            asio::read(socket_, asio::dynamic_buffer(buffer_),
                       asio::transfer_exactly(whole - buffer_.size()));
        return take(whole, 2);
    }

    std::string array(long size)
    {
        std::string all;
        for (long i = 0; i < size; ++i)
            all += (i == 0 ? "" : "\n") + read();
        return all;
    }

    // NOLINTNEXTLINE(misc-no-recursion): a reply is a tree
    std::string read()
    {
        const std::string head = line();
        std::string rest = head.substr(1);
        if (head[0] == '-')
            throw std::runtime_error("Redis answered: " + rest);
        if (head[0] == '$')
            return bulk(std::stol(rest));
        if (head[0] == '*')
            return array(std::stol(rest));
        return rest;
    }

    asio::io_context context_;
    asio::local::stream_protocol::socket socket_{context_};
    std::string buffer_;
};

std::string value_after(const std::vector<std::string>& arguments, const std::string& option)
{
    const auto at = std::find(arguments.begin(), arguments.end(), option);
    return at == arguments.end() ? "" : *std::next(at);
}

std::vector<char*> pointers(std::vector<std::string>& words)
{
    std::vector<char*> list;
    list.reserve(words.size() + 1);
    for (std::string& each : words)
        list.push_back(each.data());
    list.push_back(nullptr);
    return list;
}

/// Replaces the child process by the server. Between fork and exec, only async-signal-safe functions
/// are allowed.
[[noreturn]] void become(const char* chosen, int log, char* const* words)
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    // Otherwise the server would keep connections of the test open after the test has closed them.
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    if (chosen != nullptr)
    {
        ::execv(chosen, words);
        ::_exit(127);
    }
    ::execvp("redis-server", words);
    ::execv("/usr/bin/redis-check-rdb", words);
    ::_exit(127);
}

std::string contents(const std::filesystem::path& path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::uint16_t free_port()
{
    // The system gives the ports above to connections. One of them could take the port of a server that is restarting,
    // and a client that tries to reconnect could even connect to itself.
    std::uniform_int_distribution<unsigned> any(10'000, 32'767);
    std::random_device random;
    asio::io_context context;
    for (;;)
    {
        const auto port = static_cast<std::uint16_t>(any(random));
        asio::ip::tcp::acceptor acceptor(context, asio::ip::tcp::v4());
        boost::system::error_code in_use;
        if (!acceptor.bind({asio::ip::address_v4::loopback(), port}, in_use))
            return port;
    }
}

std::string redis_command(const std::filesystem::path& unix_socket, const std::string& password,
                          const std::vector<std::string>& words)
{
    conversation c(unix_socket);
    if (!password.empty())
        c.ask({"AUTH", password});
    return c.ask(words);
}

redis_server::redis_server(std::vector<std::string> arguments)
    : arguments_(std::move(arguments))
    , password_(value_after(arguments_, "--requirepass"))
{
    make_folder();
    start_on_a_free_port();
}

redis_server::redis_server(const redis_server& master, const std::string& name)
    : redis_server(master.port(), name, "")
{
}

redis_server::redis_server(std::uint16_t master_port, const std::string& name,
                           const std::string& lines)
    : sentinel_("sentinel monitor " + name + " 127.0.0.1 " + std::to_string(master_port) +
                " 1\nsentinel down-after-milliseconds " + name +
                " 300\nsentinel failover-timeout " + name + " 3000\n" + lines)
{
    make_folder();
    start_on_a_free_port();
}

void redis_server::make_folder()
{
    std::string name = (std::filesystem::temp_directory_path() / "turnstile-redis-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
        throw std::runtime_error("no temporary folder " + name);
    folder_ = name;
}

/// Another process may take the free port first.
void redis_server::start_on_a_free_port()
{
    for (int attempts = 5; pid_ == 0; --attempts)
        try
        {
            port_ = free_port();
            try_to_start();
        }
        catch (const std::runtime_error&)
        {
            if (attempts == 1)
            {
                std::filesystem::remove_all(folder_);
                throw;
            }
        }
}

redis_server::~redis_server()
{
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

std::string redis_server::url() const
{
    return "redis://127.0.0.1:" + std::to_string(port_);
}

std::string redis_server::unix_url() const
{
    return "unix://" + unix_socket().string();
}

std::string redis_server::run_id() const
{
    return info("run_id");
}

std::string redis_server::cli(const std::vector<std::string>& words) const
{
    return redis_command(unix_socket(), password_, words);
}

std::string redis_server::info(const std::string& field) const
{
    std::istringstream all(cli({"INFO", "everything"}));
    for (std::string line; std::getline(all, line);)
        if (line.starts_with(field + ":"))
            return line.substr(field.size() + 1, line.size() - field.size() - 2);
    throw std::runtime_error("INFO has no field " + field);
}

void redis_server::restart()
{
    const std::string before = run_id();
    kill();
    start();
    if (run_id() == before)
        throw std::runtime_error("the server has not restarted");
}

void redis_server::start()
{
    const auto deadline = std::chrono::steady_clock::now() + time_limit;
    while (pid_ == 0)
        try
        {
            try_to_start();
        }
        catch (const std::runtime_error&)
        {
            // Another test's server or connection that has got the port seldom keeps it for long.
            if (std::chrono::steady_clock::now() > deadline)
                throw;
            ::poll(nullptr, 0, 100);
        }
    forget_cut_script();
}

/// A kill can cut the append-only file among the commands of a script. The server does not execute them when it loads the
/// file, but it keeps them there, and executes them after the next restart (Redis 7.0.15). A new file contains only what
/// the server has loaded.
void redis_server::forget_cut_script()
{
    if (contents(folder_ / "log").find("Truncating the AOF") == std::string::npos)
        return;
    const auto is_rewriting = [&]
    { return info("aof_rewrite_in_progress") != "0" || info("aof_rewrite_scheduled") != "0"; };
    // A rewrite that the server has begun by itself does the same, and a second one would be refused.
    run({"CONFIG", "SET", "auto-aof-rewrite-percentage", "0"});
    if (!is_rewriting())
        run({"BGREWRITEAOF"});
    while (is_rewriting())
        ::poll(nullptr, 0, 1);
    run({"CONFIG", "SET", "auto-aof-rewrite-percentage", "100"});
}

void redis_server::try_to_start()
{
    spawn();
    wait_until_ready();
}

/// A Sentinel reads its settings from a file, in which it also stores its state.
void redis_server::write_sentinel_file() const
{
    std::ofstream(folder_ / "sentinel.conf")
        << "port " << port_ << "\nbind 127.0.0.1\nunixsocket " << unix_socket().string() << "\ndir "
        << folder_.string() << '\n'
        << sentinel_;
}

std::vector<std::string> redis_server::command_line() const
{
    if (!sentinel_.empty())
        return {"redis-server", (folder_ / "sentinel.conf").string(), "--sentinel"};
    std::vector<std::string> words{"redis-server",
                                   "--port",
                                   std::to_string(port_),
                                   "--bind",
                                   "127.0.0.1",
                                   "--unixsocket",
                                   unix_socket().string(),
                                   "--dir",
                                   folder_.string(),
                                   "--save",
                                   "",
                                   "--daemonize",
                                   "no"};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    return words;
}

void redis_server::spawn()
{
    if (!sentinel_.empty())
        write_sentinel_file();
    std::vector<std::string> words = command_line();
    const std::vector<char*> list = pointers(words);
    // No thread changes the environment of a test.
    const char* const chosen =
        std::getenv("TURNSTILE_REDIS_SERVER");  // NOLINT(concurrency-mt-unsafe)
    const int log =
        ::open((folder_ / "log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);

    pid_ = ::fork();
    if (pid_ == 0)
        become(chosen, log, list.data());
    ::close(log);
    if (pid_ < 0)
        throw std::runtime_error("cannot fork");
}

void redis_server::wait_until_ready()
{
    auto deadline = std::chrono::steady_clock::now() + time_limit;
    for (;;)
    {
        const std::string answer = ping();
        if (answer == "PONG")
            return;
        // The more data there are on the disk, the longer this takes.
        if (answer.find("LOADING") != std::string::npos)
            deadline = std::chrono::steady_clock::now() + time_limit;
        if (::waitpid(pid_, nullptr, WNOHANG) != 0)
        {
            pid_ = 0;
            throw std::runtime_error("the server does not start:\n" + contents(folder_ / "log"));
        }
        if (std::chrono::steady_clock::now() > deadline)
        {
            kill();
            throw std::runtime_error("the server does not answer:\n" + contents(folder_ / "log"));
        }
        ::poll(nullptr, 0, 1);
    }
}

/// The answer to PING, or the text of the error.
std::string redis_server::ping() const
{
    try
    {
        return cli({"PING"});
    }
    catch (const std::exception& error)
    {
        return error.what();
    }
}

void redis_server::wait_for_end()
{
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR)
    {
    }
    pid_ = 0;
    // A leftover socket would look like that of a server that has not started yet.
    std::error_code ignored;
    std::filesystem::remove(unix_socket(), ignored);
}

void redis_server::stop()
{
    if (pid_ == 0)
        return;
    ::kill(pid_, SIGTERM);
    ::kill(pid_, SIGCONT);
    wait_for_end();
}

void redis_server::kill()
{
    if (pid_ == 0)
        return;
    ::kill(pid_, SIGKILL);
    wait_for_end();
}

void redis_server::pause() const
{
    ::kill(pid_, SIGSTOP);
}

void redis_server::resume() const
{
    ::kill(pid_, SIGCONT);
}

}  // namespace turnstile::test

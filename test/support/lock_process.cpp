// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "lock_process.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <poll.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace turnstile::test {

namespace {

// The limit is reached only if something is broken; the end of a process is noticed at once.
constexpr std::chrono::seconds time_limit{300};

}  // namespace

lock_process::lock_process(const redis_server& server, const std::string& url)
{
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw std::runtime_error("no socket pair");
    const std::string writes = server.unix_socket().string();
    // No thread changes the environment meanwhile.
    const char* program = std::getenv("TURNSTILE_LOCK_PROGRAM");  // NOLINT(concurrency-mt-unsafe)
    if (program == nullptr)
        program = TURNSTILE_LOCK_PROGRAM;
    pid_ = ::fork();
    if (pid_ == 0)
    {
        // Between fork and exec, only async-signal-safe functions are allowed.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::dup2(ends[1], STDIN_FILENO);
        ::dup2(ends[1], STDOUT_FILENO);
        // Otherwise this process would keep connections of the test open after the test has closed them.
        ::close_range(STDERR_FILENO + 1, ~0U, 0);
        ::execl(program, "lock_program", url.c_str(), writes.c_str(), nullptr);
        ::_exit(127);
    }
    ::close(ends[1]);
    socket_ = ends[0];
    if (pid_ < 0)
        throw std::runtime_error("cannot fork");
    hear("ready");
}

lock_process::~lock_process()
{
    kill();
    ::close(socket_);
}

void lock_process::send(const std::string& line) const
{
    const std::string text = line + '\n';
    if (::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(text.size()))
        throw std::runtime_error("the process does not listen to: " + line);
}

/// Reads available lines, and waits up to @p timeout milliseconds for them.
void lock_process::read(int timeout)
{
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, timeout) <= 0)
        return;
    char chunk[4096];
    const ssize_t size = ::recv(socket_, chunk, sizeof chunk, 0);
    if (size <= 0)
    {
        has_ended_ = true;
        // Avoids a busy loop.
        ::poll(nullptr, 0, 1);
        return;
    }
    rest_.append(chunk, static_cast<std::size_t>(size));
    for (std::size_t end; (end = rest_.find('\n')) != std::string::npos; rest_.erase(0, end + 1))
        lines_.push_back(rest_.substr(0, end));
}

std::vector<std::string>::iterator lock_process::find(const std::string& beginning)
{
    return std::ranges::find_if(lines_, [&](const std::string& line)
                                { return line.starts_with(beginning); });
}

std::string lock_process::said() const
{
    std::string all;
    for (const std::string& line : lines_)
        all += "\n    " + line;
    return all.empty() ? " nothing more" : ":" + all;
}

std::string lock_process::hear(const std::string& beginning)
{
    const auto deadline = std::chrono::steady_clock::now() + time_limit;
    for (;;)
    {
        if (const auto found = find(beginning); found != lines_.end())
        {
            std::string rest = found->substr(std::min(found->size(), beginning.size() + 1));
            lines_.erase(found);
            return rest;
        }
        if (has_ended_ || std::chrono::steady_clock::now() > deadline)
            throw std::runtime_error((has_ended_ ? "the process ends and does not say: "
                                                 : "the process does not say: ") +
                                     beginning + "; it has said" + said());
        read(100);
    }
}

bool lock_process::has_said(const std::string& beginning)
{
    read(0);
    return find(beginning) != lines_.end();
}

std::string lock_process::ask(const std::string& line, const std::string& beginning)
{
    send(line);
    return hear(beginning);
}

bool lock_process::kill()
{
    if (pid_ == 0)
        return false;
    ::kill(pid_, SIGKILL);
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR)
    {
    }
    pid_ = 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

bool lock_process::stop() const
{
    ::kill(pid_, SIGSTOP);
    int status = 0;
    while (::waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR)
    {
    }
    return WIFSTOPPED(status);
}

void lock_process::go_on() const
{
    ::kill(pid_, SIGCONT);
}

bool write_register(const redis_server& server, const std::string& name, std::uint64_t fence)
{
    return write_register(server.unix_socket(), name, fence);
}

bool write_register(const std::filesystem::path& unix_socket, const std::string& name,
                    std::uint64_t fence)
{
    // Lua numbers are exact, because tokens are below 2^53.
    const std::string script = "local last = tonumber(redis.call('GET', KEYS[1]) or '0') "
                               "if tonumber(ARGV[1]) < last then return 'refused' end "
                               "redis.call('SET', KEYS[1], ARGV[1]) return 'accepted'";
    return redis_command(unix_socket, "",
                         {"EVAL", script, "1", "register:" + name, std::to_string(fence)}) ==
           "accepted";
}

}  // namespace turnstile::test

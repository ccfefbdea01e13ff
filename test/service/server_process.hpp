// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SERVICE_SERVER_PROCESS_HPP
#define TURNSTILE_TEST_SERVICE_SERVER_PROCESS_HPP

#include "http_client.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace turnstile::test {

/// A turnstile-server, on a free port unless @p arguments contain one. @p variables are further variables of its environment, as `NAME=value`. The
/// file @p log receives its standard error, unless the name is empty.
class server_process
{
public:
    explicit server_process(std::vector<std::string> arguments = {},
                            std::vector<std::string> variables = {}, const std::string& log = {})
    {
        if (std::ranges::find(arguments, "--port") == arguments.end())
            arguments.insert(arguments.begin(), {"--port", "0"});
        arguments.insert(arguments.begin(), TURNSTILE_SERVER_PROGRAM);
        std::vector<char*> argument_list = to_list(arguments);
        const std::vector<std::string> own = variables;
        for (char** inherited = environ; *inherited != nullptr; ++inherited)
        {
            const std::string text = *inherited;
            const std::string name = text.substr(0, text.find('=') + 1);
            if (std::ranges::none_of(own, [&](const auto& each) { return each.starts_with(name); }))
                variables.push_back(text);
        }
        std::vector<char*> variable_list = to_list(variables);

        int ends[2];
        if (::pipe(ends) != 0)
            throw std::runtime_error("no pipe");
        pid_ = ::fork();
        if (pid_ == 0)
        {
            // Between fork and exec, only async-signal-safe functions are allowed.
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::dup2(ends[1], STDOUT_FILENO);
            if (!log.empty())
                ::dup2(::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
            ::close_range(STDERR_FILENO + 1, ~0U, 0);
            ::execve(argument_list[0], argument_list.data(), variable_list.data());
            ::_exit(127);
        }
        ::close(ends[1]);
        std::string line;
        char c = 0;
        while (::read(ends[0], &c, 1) == 1 && c != '\n')
            line += c;
        ::close(ends[0]);
        const std::size_t colon = line.rfind(':');
        if (colon == std::string::npos || pid_ < 0)
            throw std::runtime_error("turnstile-server does not start, exit status " +
                                     std::to_string(exit_status()));
        address_ = {"127.0.0.1", line.substr(colon + 1)};
    }

    server_process(const server_process&) = delete;
    server_process& operator=(const server_process&) = delete;

    ~server_process()
    {
        if (pid_ > 0)
        {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
    }

    [[nodiscard]] const site& address() const noexcept { return address_; }

    void signal(int number) const { ::kill(pid_, number); }

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

    /// Kills the process with SIGKILL, and returns when it has ended.
    void kill()
    {
        signal(SIGKILL);
        exit_status();
    }

    /// Waits until the process has ended, and returns its exit status; -1 if a signal ended it.
    int exit_status()
    {
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

private:
    static std::vector<char*> to_list(std::vector<std::string>& texts)
    {
        std::vector<char*> list;
        for (std::string& text : texts)
            list.push_back(text.data());
        list.push_back(nullptr);
        return list;
    }

    pid_t pid_ = -1;
    site address_;
};

/// The log of a server that must not start.
inline std::string log_of_failure(const std::vector<std::string>& arguments,
                                  const std::vector<std::string>& environment = {})
{
    const auto file = std::filesystem::temp_directory_path() /
                      ("turnstile-" + std::to_string(std::random_device()()));
    bool has_started = true;
    try
    {
        const server_process server(arguments, environment, file);
    }
    catch (const std::runtime_error&)
    {
        has_started = false;
    }
    std::ifstream stream(file);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    std::filesystem::remove(file);
    return has_started ? "the server has started" : text;
}

}  // namespace turnstile::test

#endif

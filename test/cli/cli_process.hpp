// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_CLI_CLI_PROCESS_HPP
#define TURNSTILE_TEST_CLI_CLI_PROCESS_HPP

#include <array>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <pty.h>
#include <stdexcept>
#include <string>
#include <support/undisturbed_url.hpp>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace turnstile::test {

/// Whether a process has a controlling terminal.
enum class terminal
{
    none,
    of_the_test,
};

/// The program turnstile. The test reads its standard output and its standard error, as one.
class cli_process
{
public:
    /// Starts the program for the server with this URL, see undisturbed_url().
    cli_process(const std::string& url, std::vector<std::string> arguments,
                terminal kind = terminal::none)
    {
        arguments.insert(arguments.begin(), TURNSTILE_CLI_PROGRAM);
        std::vector<char*> list;
        for (std::string& each : arguments)
            list.push_back(each.data());
        list.push_back(nullptr);
        std::string variable = "TURNSTILE_REDIS_URL=" + undisturbed_url(url);
        std::vector<char*> variables{variable.data()};
        for (char** inherited = environ; *inherited != nullptr; ++inherited)
            variables.push_back(*inherited);
        variables.push_back(nullptr);

        std::array<int, 2> ends{-1, -1};
        if (kind == terminal::of_the_test)
            pid_ = ::forkpty(&ends[0], nullptr, nullptr, nullptr);
        else
            pid_ = ::pipe2(ends.data(), O_CLOEXEC) == 0 ? ::fork() : -1;
        if (pid_ == 0)
        {
            // Between fork and exec, only async-signal-safe functions are allowed.
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (kind == terminal::none)
            {
                ::setsid();
                ::dup2(ends[1], STDOUT_FILENO);
                ::dup2(ends[1], STDERR_FILENO);
            }
            ::execve(list[0], list.data(), variables.data());
            ::_exit(127);
        }
        if (pid_ < 0)
            throw std::runtime_error("cannot start " + arguments[0]);
        if (kind == terminal::none)
            ::close(ends[1]);
        output_ = ends[0];
    }

    cli_process(const cli_process&) = delete;
    cli_process& operator=(const cli_process&) = delete;

    ~cli_process()
    {
        if (pid_ > 0)
        {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
        }
        ::close(output_);
    }

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }

    void signal(int number) const { ::kill(pid_, number); }

    /// Types a key at the terminal.
    void type(char key) const
    {
        if (::write(output_, &key, 1) != 1)
            throw std::runtime_error("no terminal");
    }

    /// Closes the terminal.
    void hang_up()
    {
        ::close(output_);
        output_ = -1;
    }

    /// Waits for the next line of the output. Returns "end" after the last one, when no process has the output open.
    [[nodiscard]] std::string line()
    {
        std::string result;
        char c = 0;
        while (::read(output_, &c, 1) == 1)
        {
            if (c == '\n')
                return result;
            // A terminal ends lines with it, too.
            if (c != '\r')
                result += c;
        }
        return result.empty() ? "end" : result;
    }

    /// Waits for the next characters of the output.
    [[nodiscard]] std::string characters(std::size_t number)
    {
        std::string result;
        char c = 0;
        while (result.size() != number && ::read(output_, &c, 1) == 1)
            result += c;
        return result;
    }

    /// Waits for the rest of the output.
    [[nodiscard]] std::string rest()
    {
        std::string result;
        char c = 0;
        while (::read(output_, &c, 1) == 1)
            result += c;
        return result;
    }

    /// Whether the output is a pipe that accepts no more bytes.
    [[nodiscard]] bool has_full_output() const
    {
        int size = 0;
        return ::ioctl(output_, FIONREAD, &size) == 0 && size == ::fcntl(output_, F_GETPIPE_SZ);
    }

    /// From now on, nobody reads the output.
    void close_output()
    {
        ::close(output_);
        output_ = -1;
    }

    /// Waits until the process has ended, and returns its exit status; the negated number of the signal if one ended it.
    int exit_status()
    {
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }

private:
    pid_t pid_ = -1;
    int output_ = -1;
};

/// The exit status and the output of a run to the end.
struct cli_result
{
    cli_result(const std::string& url, std::vector<std::string> arguments)
    {
        cli_process process(url, std::move(arguments));
        output = process.rest();
        status = process.exit_status();
    }

    std::string output;
    int status;
};

}  // namespace turnstile::test

#endif

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "cli/program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace turnstile::cli {

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts)
{
    std::vector<char*> result;
    result.reserve(texts.size() + 1);
    for (std::string& text : texts)
        result.push_back(text.data());
    result.push_back(nullptr);
    return result;
}

bool has_terminal()
{
    const int terminal = ::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0)
        ::close(terminal);
    return terminal >= 0;
}

}  // namespace

program::program(std::vector<std::string> command, std::vector<std::string> variables,
                 const sigset_t& mask)
    : has_own_group_(!has_terminal())
{
    for (char** inherited = environ; *inherited != nullptr; ++inherited)
        variables.emplace_back(*inherited);
    const std::vector<char*> arguments = pointers_to(command);
    const std::vector<char*> environment = pointers_to(variables);
    // The child reports an error of exec through it. A successful exec closes it.
    std::array<int, 2> report{};
    if (::pipe2(report.data(), O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category());
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0)
    {
        // Between fork and exec, only async-signal-safe functions are allowed.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent)
            ::_exit(status_of_signal(SIGKILL));
        if (has_own_group_)
            ::setpgid(0, 0);
        ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
        ::execvpe(arguments[0], arguments.data(), environment.data());
        const int error = errno;
        [[maybe_unused]] const auto written = ::write(report[1], &error, sizeof error);
        ::_exit(127);
    }
    int error = pid_ < 0 ? errno : 0;
    ::close(report[1]);
    if (pid_ > 0 && ::read(report[0], &error, sizeof error) > 0)
        ::waitpid(pid_, nullptr, 0);
    ::close(report[0]);
    if (error != 0)
        throw std::system_error(error, std::generic_category());
}

void program::send(int signal) const
{
    if (!status_)
        ::kill(has_own_group_ ? -pid_ : pid_, signal);
}

std::optional<int> program::status()
{
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_)
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : status_of_signal(WTERMSIG(status));
    return status_;
}

}  // namespace turnstile::cli

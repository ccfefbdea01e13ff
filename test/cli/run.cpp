// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// `turnstile run`: programs under locks, their exit statuses and signals, and lost locks.

#include "cli_process.hpp"

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <sys/stat.h>
#include <system_error>
#include <vector>

namespace {

using turnstile::error_code;
using turnstile::test::cli_process;
using turnstile::test::cli_result;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::pool_view;
using turnstile::test::redis_server;
using turnstile::test::terminal;
using turnstile::test::undisturbed;
using turnstile::test::until;
using words = std::vector<std::string>;

/// The arguments that run a shell script with the lock "job".
words shell(const std::string& script, const words& options = {})
{
    words result{"run"};
    result.insert(result.end(), options.begin(), options.end());
    result.insert(result.end(), {"job", "--", "sh", "-c", script});
    return result;
}

/// A folder for files of the scripts.
class folder
{
public:
    folder()
    {
        std::string name = std::filesystem::temp_directory_path() / "turnstile-XXXXXX";
        path_ = ::mkdtemp(name.data());
        ::mkfifo((path_ / "end").c_str(), 0600);
    }
    folder(const folder&) = delete;
    folder& operator=(const folder&) = delete;
    ~folder() { std::filesystem::remove_all(path_); }

    [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

    /// A command that waits for end().
    [[nodiscard]] std::string wait() const { return "read end < " + file("end"); }
    void end() const { std::ofstream(path_ / "end") << '\n'; }

private:
    std::filesystem::path path_;
};

/// Whether a process runs or is stopped. A process that its parent has not waited for yet does not.
bool is_alive(const std::string& pid)
{
    std::ifstream stat("/proc/" + pid + "/stat");
    const std::string text{std::istreambuf_iterator<char>(stat), {}};
    return !text.empty() && text.find(") Z ") == std::string::npos;
}

/// The sockets that this process has open, as /proc names them.
std::set<std::string> open_sockets()
{
    std::set<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    {
        std::error_code closed;
        const std::string target = std::filesystem::read_symlink(each, closed);
        if (target.starts_with("socket:"))
            found.insert(target);
    }
    return found;
}

/// Whether a process has not handled a signal yet.
bool is_pending(int signal, pid_t pid)
{
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("ShdPnd:"))
            return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1U) != 0;
    return false;
}

/// The program has ended, but the server does not answer to the release.
struct unconfirmed_release
{
    unconfirmed_release()
    {
        const std::string program = run.line();
        server.pause();
        files.end();
        BOOST_TEST(until([&] { return !is_alive(program); }));
    }
    ~unconfirmed_release() { server.resume(); }

    const redis_server server;
    const folder files;
    cli_process run{server.url(), shell("echo $$; " + files.wait())};
};

}  // namespace

// --- the program --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_program_runs_while_the_lock_is_held)
{
    const redis_server server;
    const folder files;
    lock_client other(undisturbed(server.url()));
    cli_process run(server.url(), shell("echo $TURNSTILE_LOCK $TURNSTILE_FENCING_TOKEN; " +
                                        files.wait() + "; exit 7"));
    const std::string line = run.line();
    const lock_view lock(server, "job");
    BOOST_TEST(line == "job " + std::to_string(lock.number("fence")));
    BOOST_TEST(other.try_lock("job")->result() == "not held");
    files.end();
    BOOST_TEST(run.exit_status() == 7);
    // The release was confirmed before the process ended.
    BOOST_TEST(lock.holder() == "");
}

BOOST_AUTO_TEST_CASE(the_exit_status_is_that_of_the_program)
{
    const redis_server server;
    const auto status_of = [&](const words& command)
    {
        words arguments{"run", "job", "--"};
        arguments.insert(arguments.end(), command.begin(), command.end());
        const int status = cli_result(server.url(), arguments).status;
        BOOST_TEST(lock_view(server, "job").holder() == "");
        return status;
    };
    BOOST_TEST(status_of({"true"}) == 0);
    BOOST_TEST(status_of({"false"}) == 1);
    BOOST_TEST(status_of({"sh", "-c", "kill -9 $$"}) == 128 + SIGKILL);
    // These signals end turnstile, too, so that a script stops.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
        BOOST_TEST(status_of({"sh", "-c",
                              "ulimit -c 0; kill -" + std::to_string(signal) + " $$"}) == -signal);
    BOOST_TEST(status_of({"sh", "-c", "kill -USR1 $$"}) == 128 + SIGUSR1);
    // The program does not inherit that turnstile itself ignores this signal.
    std::signal(SIGPIPE, SIG_DFL);
    BOOST_TEST(status_of({"sh", "-c", "kill -PIPE $$"}) == 128 + SIGPIPE);
    std::signal(SIGPIPE, SIG_IGN);
    BOOST_TEST(status_of({"sh", "-c", "kill -PIPE $$"}) == 0);
    std::signal(SIGPIPE, SIG_DFL);
    BOOST_TEST(status_of({"/etc/passwd"}) == 126);
    BOOST_TEST(status_of({"/no/such/program"}) == 127);
}

BOOST_AUTO_TEST_CASE(arguments_of_the_program_arrive_as_they_are)
{
    const redis_server server;
    const cli_result run(server.url(), {"run", "job", "--", "printf", "<%s>", "", "[]", "{a}",
                                        "--timeout", "--", "a b", "-h"});
    BOOST_TEST(run.output == "<><[]><{a}><--timeout><--><a b><-h>");
}

BOOST_AUTO_TEST_CASE(the_program_inherits_the_files_of_its_caller_and_no_connection)
{
    const redis_server server;
    const std::set<std::string> sockets = open_sockets();
    std::FILE* const file = std::tmpfile();
    std::fputs("of the caller\n", file);
    std::fflush(file);
    const std::string script =
        "cat /proc/self/fd/" + std::to_string(::fileno(file)) + "; readlink /proc/self/fd/*";
    cli_process run(server.unix_url(), shell(script));
    BOOST_TEST(run.line() == "of the caller");
    for (std::string target = run.line(); target != "end"; target = run.line())
        BOOST_TEST((!target.starts_with("socket:") || sockets.contains(target)), target);
    std::fclose(file);
}

BOOST_AUTO_TEST_CASE(a_nested_program_receives_the_inner_lock)
{
    const redis_server server;
    const cli_result run(server.url(), {"run", "outer", "--", TURNSTILE_CLI_PROGRAM, "run", "inner",
                                        "--", "sh", "-c", "echo $TURNSTILE_LOCK"});
    BOOST_TEST(run.output == "inner\n");
}

BOOST_AUTO_TEST_CASE(programs_of_one_lock_run_one_after_the_other)
{
    const redis_server server;
    const folder files;
    const std::string counter = files.file("counter");
    std::ofstream(counter) << "0\n";
    std::vector<std::unique_ptr<cli_process>> all;
    for (int i = 0; i < 10; ++i)
        all.push_back(std::make_unique<cli_process>(
            server.url(), shell("n=$(cat " + counter + "); echo $((n + 1)) > " + counter)));
    for (const auto& each : all)
        BOOST_TEST(each->exit_status() == 0);
    std::string sum;
    std::ifstream(counter) >> sum;
    BOOST_TEST(sum == "10");
}

// --- waiting ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_program_whose_lock_is_not_granted_in_time_does_not_run)
{
    const redis_server server;
    lock_client holder(undisturbed(server.url()));
    const auto held = holder.lock("job");
    BOOST_TEST(held->result() == "held");
    for (int milliseconds : {0, 50})
    {
        std::string output, limit;
        // A slow machine needs longer to connect. Then the error is another one.
        BOOST_TEST(until(
            [&]
            {
                limit = std::to_string(milliseconds);
                const cli_result run(server.url(), shell("echo runs", {"--timeout", limit + "ms"}));
                output = run.output;
                milliseconds *= 2;
                return run.status == 124;
            }));
        BOOST_TEST(output == "turnstile: 'job' was not granted within " + limit + " ms\n");
    }
    BOOST_TEST(lock_view(server, "job").queued() == 0);
}

BOOST_AUTO_TEST_CASE(a_signal_ends_the_wait_for_the_lock)
{
    const redis_server server;
    lock_client holder(undisturbed(server.url()));
    const auto held = holder.lock("job");
    BOOST_TEST(held->result() == "held");
    const lock_view lock(server, "job");
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    {
        cli_process run(server.url(), shell("echo runs"));
        BOOST_TEST(until([&] { return lock.queued() == 1; }));
        run.signal(signal);
        BOOST_TEST(run.rest() == "");
        BOOST_TEST(run.exit_status() == -signal);
        BOOST_TEST(lock.queued() == 0);
    }
}

// --- signals ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_signal_is_forwarded_to_the_program)
{
    const redis_server server;
    cli_process run(
        server.url(),
        shell("(trap '' USR1; exec sleep 1000) & trap 'echo usr1' USR1;"
              "trap 'echo term; exit 3' TERM; echo started; while true; do wait; done"));
    BOOST_TEST(run.line() == "started");
    run.signal(SIGUSR1);
    BOOST_TEST(run.line() == "usr1");
    run.signal(SIGTERM);
    BOOST_TEST(run.line() == "term");
    BOOST_TEST(run.exit_status() == 3);
    BOOST_TEST(lock_view(server, "job").holder() == "");
}

BOOST_AUTO_TEST_CASE(without_a_terminal_signals_reach_the_children_of_the_program)
{
    const redis_server server;
    cli_process run(server.url(), shell("sleep 1000 & echo $!; wait"));
    const std::string child = run.line();
    BOOST_TEST(is_alive(child));
    run.signal(SIGTERM);
    BOOST_TEST(run.exit_status() == -SIGTERM);
    BOOST_TEST(until([&] { return !is_alive(child); }));
}

BOOST_AUTO_TEST_CASE(a_key_of_the_terminal_is_not_forwarded)
{
    const redis_server server;
    // The program leaves the session of the terminal, which then sends its signal to turnstile alone.
    const std::string script =
        "sleep 1000 & s=$!; trap 'echo int' INT; trap 'echo usr1' USR1;"
        "trap 'kill $s; echo term; exit' TERM; echo started; while true; do wait; done";
    cli_process run(server.url(), {"run", "job", "--", "setsid", "sh", "-c", script},
                    terminal::of_the_test);
    BOOST_TEST(run.line() == "started");
    run.type('\x03');
    // The terminal shows the key after it has sent the signal.
    BOOST_TEST(run.characters(2) == "^C");
    run.signal(SIGUSR1);
    BOOST_TEST(run.line() == "usr1");
    run.signal(SIGTERM);
    BOOST_TEST(run.line() == "term");
}

BOOST_AUTO_TEST_CASE(the_program_learns_that_its_terminal_has_closed)
{
    const redis_server server;
    // The system tells only the first process of the session, which is turnstile here.
    cli_process run(server.url(), shell("echo started; exec sleep 1000"), terminal::of_the_test);
    BOOST_TEST(run.line() == "started");
    run.hang_up();
    BOOST_TEST(run.exit_status() == -SIGHUP);
    BOOST_TEST(lock_view(server, "job").holder() == "");
}

BOOST_AUTO_TEST_CASE(the_program_does_not_outlive_a_killed_turnstile)
{
    const redis_server server;
    const folder files;
    cli_process run(server.url(), shell("trap '' TERM; echo $$; " + files.wait()));
    const std::string program = run.line();
    BOOST_TEST(is_alive(program));
    run.signal(SIGKILL);
    BOOST_TEST(run.exit_status() == -SIGKILL);
    BOOST_TEST(until([&] { return !is_alive(program); }));
}

BOOST_FIXTURE_TEST_CASE(a_signal_ends_a_release_that_is_not_confirmed, unconfirmed_release)
{
    run.signal(SIGTERM);
    BOOST_TEST(run.exit_status() == -SIGTERM);
}

BOOST_FIXTURE_TEST_CASE(more_signals_leave_a_release_no_more_time, unconfirmed_release)
{
    const std::string self = std::to_string(run.pid());
    BOOST_TEST(until(
        [&]
        {
            run.signal(SIGTERM);
            return !is_alive(self);
        }));
    BOOST_TEST(run.exit_status() == -SIGTERM);
}

BOOST_AUTO_TEST_CASE(a_signal_does_not_end_a_release_that_is_confirmed_soon)
{
    const redis_server server;
    const folder files;
    // A slow machine may need more than two seconds for the release.
    BOOST_TEST(until(
        [&]
        {
            cli_process run(server.url(), shell("echo $$; " + files.wait() + "; exit 7"));
            const std::string program = run.line();
            server.pause();
            files.end();
            BOOST_TEST(until([&] { return !is_alive(program); }));
            run.signal(SIGTERM);
            // The process may have given up meanwhile.
            const std::string self = std::to_string(run.pid());
            BOOST_TEST(until([&] { return !is_pending(SIGTERM, run.pid()) || !is_alive(self); }));
            server.resume();
            return run.exit_status() == 7;
        }));
}

BOOST_AUTO_TEST_CASE(a_signal_that_comes_with_the_end_of_the_program_leaves_time_for_the_release)
{
    const redis_server server;
    const folder files;
    cli_process run(server.url(), shell("echo $$; " + files.wait()));
    const pid_t program = std::stoi(run.line());
    // When it continues, it receives SIGTERM before SIGCHLD, which has a higher number.
    run.signal(SIGSTOP);
    ::kill(program, SIGKILL);
    BOOST_TEST(until([&] { return !is_alive(std::to_string(program)); }));
    run.signal(SIGTERM);
    run.signal(SIGCONT);
    const int status = run.exit_status();
    // The process waits for the server's answer, but not for long.
    BOOST_TEST((status == 128 + SIGKILL || status == -SIGTERM));
    BOOST_TEST(lock_view(server, "job").holder() == "");
}

BOOST_AUTO_TEST_CASE(ignored_signals_stay_ignored)
{
    const redis_server server;
    lock_client holder(undisturbed(server.url()));
    const auto held = holder.lock("job");
    BOOST_TEST(held->result() == "held");
    // As by nohup, and by programs that do not wait for their children.
    const std::string program = TURNSTILE_CLI_PROGRAM;
    const std::string script =
        "trap '' HUP CHLD; echo $$; exec " + program + " run job -- echo runs";
    cli_process run(server.url(), {"run", "other", "--", "sh", "-c", script});
    const pid_t inner = std::stoi(run.line());
    BOOST_TEST(until([&] { return lock_view(server, "job").queued() == 1; }));
    ::kill(inner, SIGHUP);
    BOOST_TEST(held->unlock() == error_code());
    BOOST_TEST(run.rest() == "runs\n");
    BOOST_TEST(run.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(turnstile_may_be_started_with_ignored_signals_that_it_needs)
{
    const redis_server server;
    const std::string program = TURNSTILE_CLI_PROGRAM;
    const std::string script = "trap '' CHLD; exec " + program + " run job -- sh -c 'exit 7'";
    cli_process run(server.url(), {"run", "other", "--", "sh", "-c", script});
    BOOST_TEST(run.exit_status() == 7);
    // The program does not ignore the signal, and it ends turnstile, too.
    std::signal(SIGHUP, SIG_IGN);
    cli_process other(server.url(), {"run", "job", "--", "env", "--default-signal=HUP", "sh", "-c",
                                     "kill -HUP $$"});
    std::signal(SIGHUP, SIG_DFL);
    BOOST_TEST(other.exit_status() == -SIGHUP);
}

// --- lost locks ---------------------------------------------------------------------------------

/// Takes the lock "job" from all its holders.
void break_lock(const redis_server& server)
{
    BOOST_TEST(cli_result(server.url(), {"free", "job", "--all"}).status == 0);
}

BOOST_AUTO_TEST_CASE(a_program_is_terminated_when_the_lock_is_lost)
{
    const redis_server server;
    cli_process run(server.url(),
                    shell("sleep 1000 & trap 'echo term; exit 0' TERM; echo started; wait",
                          {"--kill-after", "1h"}));
    BOOST_TEST(run.line() == "started");
    break_lock(server);
    const std::string output = run.rest();
    BOOST_TEST(output.find("an operator has broken") != std::string::npos, output);
    BOOST_TEST(output.find("turnstile: 'job' was lost, so 'sh' is terminated\n") !=
                   std::string::npos,
               output);
    BOOST_TEST(output.find("term\n") != std::string::npos, output);
    BOOST_TEST(output.find("lost while") == std::string::npos, output);
    BOOST_TEST(run.exit_status() == 123);
}

BOOST_AUTO_TEST_CASE(a_loss_before_the_end_of_the_program_counts_although_it_is_noticed_later)
{
    for (const char* const end : {"exit 7", "kill -TERM $$"})
        BOOST_TEST_CONTEXT(end)
        {
            const redis_server server;
            const folder files;
            cli_process run(server.url(), shell("echo $$; " + files.wait() + "; " + end));
            const std::string program = run.line();
            run.signal(SIGSTOP);
            break_lock(server);
            files.end();
            BOOST_TEST(until([&] { return !is_alive(program); }));
            run.signal(SIGCONT);
            BOOST_TEST(run.exit_status() == 123);
        }
}

BOOST_AUTO_TEST_CASE(the_rest_of_a_program_is_killed_when_the_lock_is_lost)
{
    const redis_server server;
    // The shell dies of SIGTERM, and its child ignores it.
    cli_process run(server.url(), shell("trap '' TERM; sleep 1000 & trap - TERM; echo $!; wait",
                                        {"--kill-after", "1h"}));
    const std::string child = run.line();
    break_lock(server);
    BOOST_TEST(run.exit_status() == 123);
    BOOST_TEST(until([&] { return !is_alive(child); }));
}

BOOST_AUTO_TEST_CASE(a_program_is_terminated_although_nobody_reads_the_messages)
{
    const redis_server server;
    const folder files;
    cli_process run(server.url(), shell("trap 'echo term > " + files.file("result") +
                                            "; exit' TERM; sleep 1000 & echo started; wait",
                                        {"--kill-after", "1h"}));
    BOOST_TEST(run.line() == "started");
    run.close_output();
    break_lock(server);
    BOOST_TEST(run.exit_status() == 123);
    std::string result;
    std::ifstream(files.file("result")) >> result;
    BOOST_TEST(result == "term");
}

BOOST_AUTO_TEST_CASE(a_program_is_terminated_although_nobody_can_write_messages)
{
    const redis_server server;
    const folder files;
    const std::string result = files.file("result");
    cli_process run(server.url(), shell("trap 'echo term > " + result + "; exit' TERM; yes & wait",
                                        {"--kill-after", "1h"}));
    BOOST_TEST(until([&] { return run.has_full_output(); }));
    break_lock(server);
    BOOST_TEST(run.exit_status() == 123);
    std::string text;
    std::ifstream(result) >> text;
    BOOST_TEST(text == "term");
}

BOOST_AUTO_TEST_CASE(a_program_that_ignores_the_loss_is_killed)
{
    const redis_server server;
    const folder files;
    cli_process run(server.url(),
                    shell("trap '' TERM; echo $$; " + files.wait(), {"--kill-after", "1ms"}));
    const std::string program = run.line();
    break_lock(server);
    BOOST_TEST(run.exit_status() == 123);
    BOOST_TEST(until([&] { return !is_alive(program); }));
}

BOOST_AUTO_TEST_CASE(a_program_has_the_time_to_end_that_the_option_grants)
{
    const redis_server server;
    // It needs longer than the five seconds that it has without the option.
    cli_process run(
        server.url(),
        shell("trap 'sleep 6; echo cleaned; exit' TERM; sleep 1000 & echo started; wait",
              {"--kill-after", "1h"}));
    BOOST_TEST(run.line() == "started");
    break_lock(server);
    const std::string output = run.rest();
    BOOST_TEST(output.find("cleaned\n") != std::string::npos, output);
    BOOST_TEST(run.exit_status() == 123);
}

BOOST_AUTO_TEST_CASE(a_stopped_program_is_terminated_when_the_lock_is_lost)
{
    const redis_server server;
    cli_process run(server.url(), shell("echo started; kill -STOP $$", {"--kill-after", "1h"}));
    BOOST_TEST(run.line() == "started");
    break_lock(server);
    BOOST_TEST(run.exit_status() == 123);
}

// --- other kinds of locks -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(shared_programs_run_together_and_exclusive_ones_alone)
{
    const redis_server server;
    const folder files;
    const pool_view lock(server, "job", "shared_mutex");
    const std::string script = "echo started; " + files.wait();
    cli_process first(server.url(), shell(script, {"--shared"}));
    cli_process second(server.url(), shell(script, {"--shared"}));
    BOOST_TEST(first.line() == "started");
    BOOST_TEST(second.line() == "started");
    BOOST_TEST(lock.holders() == 2);
    BOOST_TEST(cli_result(server.url(), shell("", {"--exclusive", "--timeout", "0s"})).status ==
               124);
    cli_process writer(server.url(), shell(script, {"--exclusive"}));
    first.signal(SIGTERM);
    second.signal(SIGTERM);
    BOOST_TEST(writer.line() == "started");
    BOOST_TEST(cli_result(server.url(), shell("", {"--shared", "--timeout", "0s"})).status == 124);
}

BOOST_AUTO_TEST_CASE(as_many_programs_run_as_the_semaphore_has_units)
{
    const redis_server server;
    const pool_view units(server, "job");
    const folder files;
    const std::string script = "echo started; " + files.wait();
    cli_process first(server.url(), shell(script, {"--capacity", "4"}));
    cli_process second(server.url(), shell(script, {"--capacity", "4", "--units", "2"}));
    BOOST_TEST(first.line() == "started");
    BOOST_TEST(second.line() == "started");
    BOOST_TEST(units.held() == 3);
    const words too_many{"--capacity", "4", "--units", "2", "--timeout", "0s"};
    BOOST_TEST(cli_result(server.url(), shell("", too_many)).status == 124);
    second.signal(SIGTERM);
    BOOST_TEST(second.exit_status() == -SIGTERM);
    BOOST_TEST(cli_result(server.url(), shell("exit 5", too_many)).status == 5);
    const cli_result other(server.url(), shell("", {"--capacity", "5"}));
    BOOST_TEST(other.status == 125);
    BOOST_TEST(other.output.find("with a capacity of 5, but the server has 4; open it with 4\n") !=
                   std::string::npos,
               other.output);
}

// --- errors -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(wrong_options_are_refused_with_the_rule)
{
    const redis_server server;
    const auto refusal = [&](const words& arguments)
    {
        const cli_result run(server.url(), arguments);
        BOOST_TEST(run.status == 125);
        return run.output.substr(0, run.output.find('\n'));
    };
    BOOST_TEST(refusal({"run", "job"}) == "-- PROGRAM is required");
    BOOST_TEST(refusal({"run"}) == "NAME is required");
    for (const std::string option : {"--timeout", "--kill-after"})
        for (const std::string wrong : {"5", "-1s", "1000001ms", "s", "", "1d", "1.5s", "1 s"})
            BOOST_TEST(refusal({"run", "job", option, wrong, "--", "true"}) ==
                       option + ": '" + wrong +
                           "' is not a whole number up to 1000000 with a unit: ms, s, min or h");
    for (const std::string wrong :
         {"0x4", "4x", "", "0", "-1", "268435456", "99999999999999999999"})
    {
        const std::string rule = ": '" + wrong + "' is not a whole number from 1 to ";
        BOOST_TEST(refusal({"run", "job", "--capacity", wrong, "--", "true"}) ==
                   "--capacity" + rule + "268435455");
        BOOST_TEST(refusal({"run", "job", "--capacity", "9", "--units", wrong, "--", "true"}) ==
                   "--units" + rule + "268435455");
    }
    for (const std::string wrong : {"0", "-1", "1.5", "9223372036854775808"})
        BOOST_TEST(refusal({"free", "job", "--token", wrong}) ==
                   "--token: '" + wrong + "' is not a whole number from 1 to 9223372036854775807");
    BOOST_TEST(refusal({"run", "job", "--units", "2", "--", "true"}) ==
               "--units requires --capacity");
    BOOST_TEST(refusal({"run", "job", "--capacity", "2", "--units", "3", "--", "true"}) ==
               "--units: 3 is more than --capacity 2");
    BOOST_TEST(refusal({"run", "-x", "--", "true"}) ==
               "The following argument was not expected: -x");
    BOOST_TEST(refusal({"bogus"}) == "The following argument was not expected: bogus");
    BOOST_TEST(refusal({"run", "job", "--shared", "--capacity", "2", "--", "true"}) ==
               "--shared excludes --capacity");
    BOOST_TEST(refusal({"run", "job", "--exclusive", "--capacity", "2", "--", "true"}) ==
               "--exclusive excludes --capacity");
    BOOST_TEST(refusal({"run", "job", "--shared", "--exclusive", "--", "true"}) ==
               "--shared excludes --exclusive");
    BOOST_TEST(refusal({}) == "A subcommand is required");
    BOOST_TEST(refusal({"run", "", "--", "true"}).find("name") != std::string::npos);
    BOOST_TEST(refusal({"free", "job"}).find("--token") != std::string::npos);
    BOOST_TEST(refusal({"show", "job", "--kind", "latch"}).find("latch") != std::string::npos);
    BOOST_TEST(refusal({"show", "job", "--", "true"}) == "show runs no program");
    BOOST_TEST(refusal({"free", "job", "--all", "--", "true"}) == "free runs no program");
    BOOST_TEST(refusal({"free", "job", "--all", "--token", "1"}).find("--token") !=
               std::string::npos);
    BOOST_TEST(refusal({"show", "job", "--redis", "http://h"}).find("redis://") !=
               std::string::npos);
    BOOST_TEST(refusal({"show", "job", "--redis", ""}) == "--redis: must not be empty");
}

BOOST_AUTO_TEST_CASE(a_long_message_is_cut_before_its_rule)
{
    const redis_server server;
    const cli_result run(server.url(),
                         {"show", "job", "--redis", "redis://host/" + std::string(100'000, 'x')});
    BOOST_TEST(run.output.size() < 4096U);
    BOOST_TEST(run.output.starts_with("turnstile: db=xxx"), run.output);
    BOOST_TEST(run.output.find("xxx ... xxx") != std::string::npos, run.output);
    BOOST_TEST(run.output.ends_with(": must be a number, at least 0\n"), run.output);
}

BOOST_AUTO_TEST_CASE(the_version_is_printed)
{
    const redis_server server;
    const cli_result run(server.url(), {"--version"});
    BOOST_TEST(run.status == 0);
    BOOST_TEST(run.output.starts_with("turnstile 0."), run.output);
}

BOOST_AUTO_TEST_CASE(a_server_that_refuses_the_password_is_an_error)
{
    const redis_server server({"--requirepass", "secret"});
    const std::string url = "redis://:wrong@127.0.0.1:" + std::to_string(server.port());
    for (const words& arguments : {shell("echo runs"), words{"show", "job"}})
    {
        const cli_result run(url, arguments);
        BOOST_TEST(run.status == 125);
        BOOST_TEST(run.output.find("WRONGPASS") != std::string::npos, run.output);
        BOOST_TEST(run.output.find("runs") == std::string::npos);
    }
}

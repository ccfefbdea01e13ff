// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// turnstile: locks over Redis for scripts and operators. See docs/cli.md.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <turnstile/redis/async_semaphore.hpp>

#include "cli/commands.hpp"
#include "cli/report.hpp"

namespace {

using namespace turnstile::cli;
using turnstile::redis::async_semaphore;
using turnstile::redis::config;
using turnstile::redis::log_level;

constexpr const char* footer = R"(
Each subcommand also accepts --redis.

Examples:
  turnstile run backup -- pg_dump -f /backup/shop.sql shop
  turnstile run --timeout 0s nightly -- /usr/local/bin/report || echo "runs elsewhere"
  turnstile run --capacity 3 encoder -- ffmpeg -i in.mov out.mp4
  turnstile show backup
  turnstile free backup --token 17
)";

/// Reads a whole number at the beginning of a text, and removes it. CLI11 would read 010 as 8.
bool take_number(std::string_view& text, std::int64_t& number)
{
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return error == std::errc();
}

/// Accepts a whole number within limits.
CLI::Validator whole_number(std::int64_t least, std::int64_t most)
{
    return CLI::Validator(
        [=](std::string& text)
        {
            std::string_view rest = text;
            std::int64_t number = 0;
            if (!take_number(rest, number) || !rest.empty() || number < least || number > most)
                return "'" + text + "' is not a whole number from " + std::to_string(least) +
                       " to " + std::to_string(most);
            text = std::to_string(number);
            return std::string();
        },
        "");
}

/// Accepts a whole number with a unit, as in a URL, and converts it to milliseconds.
CLI::Validator duration()
{
    return CLI::Validator(
        [](std::string& text)
        {
            static const std::map<std::string_view, std::int64_t> units{
                {"ms", 1}, {"s", 1000}, {"min", 60'000}, {"h", 3'600'000}};
            constexpr std::int64_t most = 1'000'000;
            std::string_view rest = text;
            std::int64_t number = 0;
            const bool is_number = take_number(rest, number) && number >= 0 && number <= most;
            const auto unit = units.find(rest);
            if (!is_number || unit == units.end())
                return "'" + text + "' is not a whole number up to " + std::to_string(most) +
                       " with a unit: ms, s, min or h";
            text = std::to_string(number * unit->second);
            return std::string();
        },
        "");
}

/// Adds the argument NAME and the option --kind.
void add_object(CLI::App& app, object_name& object)
{
    static const std::map<std::string, object_kind> kinds{
        {"mutex", object_kind::mutex},
        {"shared_mutex", object_kind::shared_mutex},
        {"semaphore", object_kind::semaphore},
        {"monitor", object_kind::monitor}};
    app.add_option("NAME", object.name, "Name of the object")->required();
    app.add_option_function<std::string>(
           "--kind", [&object](const std::string& kind) { object.kind = kinds.at(kind); },
           "Kind of the object; a mutex by default")
        ->check(CLI::IsMember(kinds));
}

/// Adds the options of `run`, except the program, which follows a -- on the command line.
void add_options(CLI::App& command, run_options& to_run)
{
    command.add_option("NAME", to_run.object.name, "Name of the lock")->required();
    auto* const shared = command.add_flag_callback(
        "--shared",
        [&to_run]
        {
            to_run.object.kind = object_kind::shared_mutex;
            to_run.is_shared = true;
        },
        "Lock a shared mutex in shared mode");
    auto* const exclusive = command.add_flag_callback(
        "--exclusive", [&to_run] { to_run.object.kind = object_kind::shared_mutex; },
        "Lock a shared mutex in exclusive mode");
    auto* const capacity = command
                               .add_option("--capacity", to_run.capacity,
                                           "Acquire units of a semaphore with this capacity")
                               ->transform(whole_number(1, async_semaphore::max_capacity))
                               ->type_name("NUMBER");
    command.add_option("--units", to_run.units, "Number of units of the semaphore; 1 by default")
        ->transform(whole_number(1, async_semaphore::max_capacity))
        ->type_name("NUMBER")
        ->needs(capacity);
    shared->excludes(exclusive)->excludes(capacity);
    exclusive->excludes(capacity);
    const auto add_duration = [&command](const char* name, auto& to, const char* help)
    {
        command
            .add_option_function<std::int64_t>(
                name, [&to](std::int64_t value) { to = std::chrono::milliseconds(value); }, help)
            ->transform(duration())
            ->type_name("DURATION");
    };
    add_duration("--timeout", to_run.time_limit,
                 "Longest wait for the lock; unlimited by default; 0s does not wait");
    add_duration("--kill-after", to_run.kill_after,
                 "Time between SIGTERM and SIGKILL after the loss of the lock; 5s by default");
}

/// Adds the options of `free`.
void add_options(CLI::App& command, free_options& to_free)
{
    add_object(command, to_free.object);
    auto* const which = command.add_option_group("holder", "Which holder loses the lock");
    which
        ->add_option("--token", to_free.token,
                     "The holder with this fencing token, which show prints")
        ->transform(whole_number(1, std::numeric_limits<std::int64_t>::max()))
        ->type_name("NUMBER");
    which->add_flag("--all")->description("All holders");
    which->require_option(1);
}

/// The settings for a server; for that of the environment if the URL is empty.
config settings_for(const std::string& url)
{
    config result = url.empty() ? config::from_environment() : config(url);
    result.logger = [](log_level level, std::string_view text)
    {
        if (level >= log_level::warning)
            report((level == log_level::warning ? "warning: " : "error: ") + std::string(text));
    };
    return result;
}

int start(int argc, char** argv)
{
    CLI::App app("Locks over Redis for scripts and operators.", "turnstile");
    app.footer(footer);
    app.set_version_flag("--version", "turnstile " TURNSTILE_VERSION, "Print the version and exit");
    app.require_subcommand(1);
    // Subcommands inherit this, so they also accept the options of the program.
    app.fallthrough();
    std::string url;
    app.add_option("--redis", url,
                   "URL of the Redis server: "
                   "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?OPTION=VALUE]; "
                   "default: the variable TURNSTILE_REDIS_URL")
        // A script may pass a variable that is not set. Without the option, another server would be used.
        ->check([](const std::string& text) { return text.empty() ? "must not be empty" : ""; });
    int status = failed;

    // CLI11 would interpret some arguments of the program, such as [].
    char** const end = argv + argc;
    char** const mark = std::find(argv, end, std::string_view("--"));
    run_options to_run;
    to_run.command.assign(std::min(mark + 1, end), end);
    CLI::App& run_command =
        *app.add_subcommand("run", "Run a program while a lock is held:\n"
                                   "turnstile run [OPTIONS] NAME -- PROGRAM [ARGUMENT]...");
    add_options(run_command, to_run);
    run_command.callback(
        [&]
        {
            if (to_run.command.empty())
                throw CLI::RequiredError("-- PROGRAM");
            if (to_run.capacity > 0)
            {
                to_run.object.kind = object_kind::semaphore;
                if (to_run.units > to_run.capacity)
                    throw CLI::ValidationError("--units", std::to_string(to_run.units) +
                                                              " is more than --capacity " +
                                                              std::to_string(to_run.capacity));
            }
            status = run(settings_for(url), to_run);
        });

    object_name to_show;
    bool as_json = false;
    CLI::App& show_command = *app.add_subcommand("show", "Print the holders and the waiters");
    add_object(show_command, to_show);
    show_command.add_flag("--json", as_json, "Print a JSON object");
    show_command.callback([&] { status = show(settings_for(url), to_show, as_json); });

    free_options to_free;
    CLI::App& free_command =
        *app.add_subcommand("free", "Take the lock from its holder, which is stuck");
    add_options(free_command, to_free);
    free_command.callback([&] { status = free(settings_for(url), to_free); });

    try
    {
        app.parse_complete_callback(
            [&]
            {
                for (const CLI::App* command : app.get_subcommands())
                    if (command != &run_command && mark != end)
                        throw CLI::ExtrasError(command->get_name() + " runs no program",
                                               CLI::ExitCodes::ExtrasError);
            });
        app.parse(static_cast<int>(mark - argv), argv);
    }
    catch (const CLI::RequiredError& error)
    {
        // Something may be missing because what is there is not what was meant, such as a name with a hyphen.
        const auto unexpected = app.remaining(true);
        app.exit(unexpected.empty() ? CLI::ParseError(error) : CLI::ExtrasError(unexpected));
        status = failed;
    }
    catch (const CLI::ParseError& error)
    {
        status = app.exit(error) == 0 ? 0 : int(failed);
    }
    if (!std::cout.flush())
        throw std::runtime_error("cannot write to the standard output");
    return status;
}

}  // namespace

int main(int argc, char** argv)
{
    try
    {
        return start(argc, argv);
    }
    catch (const std::exception& error)
    {
        report(error.what());
        return failed;
    }
}

// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// turnstile-server: semaphores over HTTP. See docs/service.md.

#include "service/log.hpp"
#include "service/server.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/config.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cctype>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace turnstile::service;

constexpr const char* examples = R"(
Examples:
  turnstile-server --port 8080
  TURNSTILE_ADMIN_TOKEN=secret turnstile-server --address 0.0.0.0
  turnstile-server --port 8080 --redis redis://127.0.0.1:6379

  curl -d 'name=printer&value=2' localhost:1880/semaphore
  curl -d 'name=printer&wait=30' localhost:1880/semaphore/down
  curl -d 'name=printer' localhost:1880/semaphore/up
)";

// CLI11 would convert a negative number to a large one, and a too large one to the largest.
constexpr std::int64_t most_clients = 1'000'000'000;
constexpr std::int64_t most_bytes = std::int64_t(1) << 30U;

/// Each connection needs a file descriptor, and systems grant more of them only to programs that ask.
void raise_descriptor_limit()
{
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Reads a token. A value that no request can contain would make the server refuse every client.
std::string read_token(const char* variable)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads.
    const char* const text = std::getenv(variable);
    const std::string token = text == nullptr ? "" : text;
    const auto is_control = [](unsigned char c) { return std::iscntrl(c) != 0; };
    if (token.starts_with(' ') || token.ends_with(' ') || std::ranges::any_of(token, is_control))
        throw std::runtime_error(std::string(variable) +
                                 ": a token must not begin or end with a space, or contain control "
                                 "characters such as the end of a line");
    return token;
}

/// Reads the options and the environment, and sets up the log. Returns the exit status if the program ends with that.
std::optional<int> read_settings(int argc, char** argv, server_settings& connections,
                                 service_settings& behaviour)
{
    auto max_wait = behaviour.max_wait.count();
    auto max_lease = behaviour.max_lease.count();
    auto request_timeout = connections.request_timeout.count();
    auto idle_timeout = connections.idle_timeout.count();

    CLI::App app("Semaphores over HTTP: counting, waiting, leased permits.", "turnstile-server");
    app.footer(examples);
    // CLI11's own flag would come after the error of a wrong variable, and that error refers to the help.
    app.set_help_flag();
    app.add_flag_callback(
        "-h,--help", [] { throw CLI::CallForHelp(); }, "Print this help message and exit");
    app.failure_message(
        [](const CLI::App*, const CLI::Error& error)
        { return std::string(error.what()) + "\nRun with --help for more information.\n"; });
    app.set_version_flag("--version", "turnstile-server " TURNSTILE_VERSION,
                         "Print the version and exit");
    const auto option = [&](const char* name, const char* variable, auto& value, const char* help)
    { return app.add_option(name, value, help)->envname(variable)->capture_default_str(); };
    const auto number = [&](const char* name, const char* variable, auto& value, std::int64_t least,
                            std::int64_t most, const char* help)
    {
        option(name, variable, value, help)
            // CLI11 would read 010 as 8 and accept 0x10.
            ->transform(CLI::Validator(
                [=](std::string& text)
                {
                    std::int64_t parsed = 0;
                    const auto* const end = text.data() + text.size();
                    const auto [rest, error] = std::from_chars(text.data(), end, parsed);
                    if (error != std::errc() || rest != end || parsed < least || parsed > most)
                        return "'" + text + "' is not a whole number from " +
                               std::to_string(least) + " to " + std::to_string(most);
                    text = std::to_string(parsed);
                    return std::string();
                },
                "from " + std::to_string(least) + " to " + std::to_string(most)));
    };
    option("--address", "TURNSTILE_ADDRESS", connections.address, "Address to listen on");
    number("--port", "TURNSTILE_PORT", connections.port, 0, 65535,
           "Port to listen on; 0 selects a free one");
    number("--max-body", "TURNSTILE_MAX_BODY", connections.max_body, 1024, most_bytes,
           "Largest body, in bytes");
    number("--max-header", "TURNSTILE_MAX_HEADER", connections.max_header, 1024, 1 << 20,
           "Largest request head, in bytes");
    number("--max-connections", "TURNSTILE_MAX_CONNECTIONS", connections.max_connections, 1,
           most_clients, "Largest number of connections");
    number("--max-waiters", "TURNSTILE_MAX_WAITERS", behaviour.max_waiters, 0, most_clients,
           "Largest number of waiting clients");
    number("--max-waiters-per-client", "TURNSTILE_MAX_WAITERS_PER_CLIENT",
           behaviour.max_waiters_per_client, 1, most_clients,
           "Largest number of waiting clients with the same address");
    number("--request-timeout", "TURNSTILE_REQUEST_TIMEOUT", request_timeout, 1, 86'400,
           "Seconds that a client may take to send a request or to receive an answer");
    number("--idle-timeout", "TURNSTILE_IDLE_TIMEOUT", idle_timeout, 1, 86'400,
           "Seconds that a connection may be idle");
    number("--max-wait", "TURNSTILE_MAX_WAIT", max_wait, 1, 86'400,
           "Longest wait of a down, in seconds");
    number("--max-lease", "TURNSTILE_MAX_LEASE", max_lease, 1, 31'536'000,
           "Longest lease of a permit, in seconds");
    // A script may pass a variable that is not set. Without the option, the server would keep or encrypt nothing.
    const auto not_empty = [](const std::string& text)
    { return text.empty() ? "must not be empty; remove the option if it is not needed" : ""; };
    option("--tls-cert", "TURNSTILE_TLS_CERT", connections.certificate,
           "File with the certificate and its chain (PEM): the server speaks HTTPS only")
        ->check(not_empty);
    option("--tls-key", "TURNSTILE_TLS_KEY", connections.key,
           "File with the key of the certificate (PEM)")
        ->check(not_empty);
    option("--snapshot", "TURNSTILE_SNAPSHOT", behaviour.snapshot,
           "File that keeps the semaphores while the server does not run")
        ->check(not_empty);
    option("--redis", "TURNSTILE_REDIS_URL", behaviour.redis,
           "URL of the Redis server that keeps the semaphores for several servers: "
           "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?OPTION=VALUE]; excludes --snapshot")
        ->check(not_empty);
    auto& calls = behaviour.notify;
    option("--notify-host", "TURNSTILE_NOTIFY_HOST", calls.hosts,
           "HOST or HOST:PORT that call-backs may reach; can be repeated, or a list with commas")
        ->delimiter(',')
        // Otherwise, CLI11 removes the brackets of an IPv6 address.
        ->allow_extra_args(false)
        ->check(
            [](const std::string& host)
            {
                const bool is_more = host.find_first_of("/?*") != std::string::npos;
                return !is_more && parse_url("http://" + host)
                           ? std::string()
                           : "'" + host + "' is not HOST or HOST:PORT; there are no wildcards";
            });
    option("--notify-ca", "TURNSTILE_NOTIFY_CA", calls.authorities,
           "File with the authorities (PEM) to trust for https receivers; default: the system's")
        ->check(not_empty);
    number("--notify-attempts", "TURNSTILE_NOTIFY_ATTEMPTS", calls.attempts, 1, 20,
           "Number of attempts for each call-back; the delay between them doubles from 0.5 s");
    number("--max-notifications", "TURNSTILE_MAX_NOTIFICATIONS", calls.most, 0, most_clients,
           "Largest number of registered call-backs");
    const std::map<std::string, log_level> levels{{"error", log_level::error},
                                                  {"warning", log_level::warning},
                                                  {"info", log_level::info},
                                                  {"debug", log_level::debug}};
    std::string level = "info";
    std::string format = "text";
    option("--log-level", "TURNSTILE_LOG_LEVEL", level,
           "Least important lines that are logged; debug includes answered requests")
        ->check(CLI::IsMember(levels));
    option("--log-format", "TURNSTILE_LOG_FORMAT", format, "Format of the lines of the log")
        ->check(CLI::IsMember({"text", "json"}));
    const auto is_argument = [&](const std::string& name)
    {
        return std::any_of(argv, argv + argc, [&](std::string_view argument)
                           { return argument == name || argument.starts_with(name + '='); });
    };
    // CLI11 takes them in reverse order.
    std::vector<std::string> arguments;
    for (int i = argc - 1; i > 0; --i)
        arguments.emplace_back(argv[i]);
    // Since version 2.4, CLI11 ignores a variable whose value is wrong, so variables become arguments.
    for (const CLI::Option* each : app.get_options())
    {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads.
        const char* const value = std::getenv(each->get_envname().c_str());
        if (value != nullptr && *value != '\0' && !is_argument(each->get_name()))
            arguments.push_back(each->get_name() + '=' + value);
    }
    try
    {
        app.parse(std::move(arguments));
    }
    catch (const CLI::ParseError& error)
    {
        const int status = app.exit(error);
        // CLI11 names the option also if its variable has the wrong value.
        for (const CLI::Option* each : app.get_options())
        {
            const std::string name = each->get_name();
            if (std::string_view(error.what()).starts_with(name + ": ") && !is_argument(name))
                std::cerr << "This is the value of the variable " << each->get_envname() << ".\n";
        }
        if (!std::cout.flush())
            throw std::runtime_error("cannot write to the standard output");
        return status;
    }
    configure_log(levels.at(level), format == "json");
    // There are no options for tokens, because each user of the machine can read the arguments of
    // a process.
    behaviour.tokens = {read_token("TURNSTILE_READ_TOKEN"), read_token("TURNSTILE_USE_TOKEN"),
                        read_token("TURNSTILE_ADMIN_TOKEN")};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no other threads.
    const char* const secret = std::getenv("TURNSTILE_NOTIFY_SECRET");
    calls.secret = secret == nullptr ? "" : secret;
    if (!calls.hosts.empty() && calls.secret.empty())
        throw std::runtime_error("--notify-host needs a key for signatures: set the environment "
                                 "variable TURNSTILE_NOTIFY_SECRET");
    behaviour.max_wait = std::chrono::seconds(max_wait);
    behaviour.max_lease = std::chrono::seconds(max_lease);
    connections.request_timeout = std::chrono::seconds(request_timeout);
    connections.idle_timeout = std::chrono::seconds(idle_timeout);
    return std::nullopt;
}

/// Makes the next signal kill the process. In the first process of a container, the system ignores signals with the
/// default action, so the process exits there.
void kill_by_next(int number)
{
    struct sigaction action{};
    action.sa_handler = [](int received)
    {
        ::raise(received);
        ::_exit(128 + received);
    };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(number, &action, nullptr);
}

int run(int argc, char** argv)
{
    server_settings connections;
    service_settings behaviour;
    if (const auto status = read_settings(argc, argv, connections, behaviour))
        return *status;

    // A file that reaches the limit of its size is an error of writing, like a full disk.
    std::signal(SIGXFSZ, SIG_IGN);
    // A log that nobody reads any longer is no reason to stop.
    std::signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();

    // Each thread of the resolver looks up one name at a time.
    boost::asio::io_context context(
        boost::asio::config_from_string("scheduler.concurrency_hint=1\nresolver.threads=" +
                                        std::to_string(behaviour.notify.hosts.size())));
    service answers(context, behaviour);
    server listener(context, answers, connections);
    boost::asio::signal_set signals(context, SIGINT, SIGTERM);
    // nohup starts a program with this signal ignored.
    if (std::signal(SIGHUP, SIG_IGN) != SIG_IGN)
        signals.add(SIGHUP);
    signals.async_wait(
        [&](const turnstile::error_code&, int)
        {
            log(log_level::info, "stopping");
            // The next signal kills the process. But a terminal may send SIGHUP twice when it closes.
            signals.clear();
            kill_by_next(SIGINT);
            kill_by_next(SIGTERM);
            std::signal(SIGHUP, SIG_IGN);
            answers.close();
            listener.close();
        });
    listener.start();
    const std::string& address = connections.address;
    std::cout << "turnstile-server: listening on http"
              << (connections.certificate.empty() ? "" : "s") << "://"
              << (address.find(':') == std::string::npos ? address : '[' + address + ']') << ':'
              << listener.port() << std::endl;
    context.run();
    answers.sync();
    return 0;
}

}  // namespace

int main(int argc, char** argv)
{
    try
    {
        return run(argc, argv);
    }
    catch (const std::exception& error)
    {
        log(log_level::error, error.what());
        return 1;
    }
}

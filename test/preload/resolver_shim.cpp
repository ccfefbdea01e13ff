// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Preloaded into a server (LD_PRELOAD), it gives the host name "two.example" the addresses 127.0.0.2 and 127.0.0.1, and
// "slow.example" the address 127.0.0.1 when a process opens the FIFO $TURNSTILE_SLOW_LOOKUP for writing.

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints,
                           addrinfo** found)
{
    using function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
    static auto* const real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    if (host != nullptr && std::strcmp(host, "slow.example") == 0)
    {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): the server does not change its environment.
        ::close(::open(std::getenv("TURNSTILE_SLOW_LOOKUP"), O_RDONLY | O_CLOEXEC));
        return real("127.0.0.1", service, hints, found);
    }
    if (host == nullptr || std::strcmp(host, "two.example") != 0)
        return real(host, service, hints, found);
    const int error = real("127.0.0.2", service, hints, found);
    if (error != 0)
        return error;
    addrinfo* last = *found;
    while (last->ai_next != nullptr)
        last = last->ai_next;
    return real("127.0.0.1", service, hints, &last->ai_next);
}

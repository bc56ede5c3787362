#include "rl/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/error.h"

extern char** environ;

namespace fp8rl::rl {

using Clock = std::chrono::steady_clock;

// Blocks SIGPIPE in this thread and swallows one that a write raised, leaving the process's handlers alone.
class SigpipeGuard {
  public:
    SigpipeGuard() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &old_);
    }
    ~SigpipeGuard() {
        const timespec now{};
        if (!was_pending_)
            while (sigtimedwait(&pipe_, nullptr, &now) == SIGPIPE) {
            }
        pthread_sigmask(SIG_SETMASK, &old_, nullptr);
    }

  private:
    sigset_t pipe_, old_;
    bool was_pending_;
};

static void close_fd(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
}

Subprocess::Subprocess(const std::vector<std::string>& argv) {
    check(!argv.empty(), "subprocess: no program");
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) refuse("cannot open a pipe to ", argv[0], ": ", std::strerror(errno));
    if (pipe2(out, O_CLOEXEC) != 0) {
        int error = errno;
        close_fd(in[0]), close_fd(in[1]);
        refuse("cannot open a pipe from ", argv[0], ": ", std::strerror(error));
    }

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);

    std::vector<char*> arguments;
    for (const auto& a : argv) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    int error = posix_spawnp(&pid_, arguments[0], &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close_fd(in[0]), close_fd(out[1]);
    to_ = in[1], from_ = out[0];
    if (error != 0) {
        pid_ = -1;
        close_fd(to_), close_fd(from_);
        refuse("cannot start ", argv[0], ": ", std::strerror(error));
    }
    fcntl(to_, F_SETFL, O_NONBLOCK);
    fcntl(from_, F_SETFL, O_NONBLOCK);
}

Subprocess::~Subprocess() {
    end(std::chrono::seconds(1));
    close_fd(from_);
}

bool Subprocess::read_some() {
    char block[1 << 16];
    for (;;) {
        ssize_t n = ::read(from_, block, sizeof block);
        if (n > 0) {
            buffer_.append(block, static_cast<size_t>(n));
            return true;
        }
        if (n < 0 && errno == EINTR) continue;
        return n < 0 && errno == EAGAIN;
    }
}

Subprocess::Exchange Subprocess::exchange(std::string_view input, size_t lines,
                                          std::chrono::duration<double> limit) {
    SigpipeGuard guard;
    const auto deadline = Clock::now() + limit;
    Exchange x{Outcome::complete, {}};
    bool open = true, writable = true;
    for (;;) {
        size_t begin = 0;
        for (size_t at; x.lines.size() < lines && (at = buffer_.find('\n', begin)) != std::string::npos;
             begin = at + 1)
            x.lines.push_back(buffer_.substr(begin, at - begin));
        buffer_.erase(0, begin);
        if (x.lines.size() == lines) return x;
        if (buffer_.size() > longest_line) return x.outcome = Outcome::line_too_long, x;
        if (!open) return x.outcome = Outcome::closed, x;

        const std::chrono::duration<double, std::milli> left = deadline - Clock::now();
        if (left.count() <= 0) return x.outcome = Outcome::timed_out, x;
        pollfd fds[2] = {{from_, POLLIN, 0}, {to_, POLLOUT, 0}};
        const nfds_t watched = writable && !input.empty() ? 2 : 1;
        if (poll(fds, watched, static_cast<int>(std::min(std::ceil(left.count()), 1e9))) < 0 &&
            errno != EINTR)
            defect("subprocess: poll: ", std::strerror(errno));
        if (watched == 2 && fds[1].revents != 0) {
            ssize_t n = ::write(to_, input.data(), std::min<size_t>(input.size(), 1 << 16));
            if (n > 0) input.remove_prefix(static_cast<size_t>(n));
            // It reads no more; what it still says tells why.
            if (n < 0 && errno != EAGAIN && errno != EINTR) writable = false;
        }
        if (fds[0].revents != 0) open = read_some();
    }
}

bool Subprocess::has_unread_output() {
    pollfd fd = {from_, POLLIN, 0};
    if (poll(&fd, 1, 0) > 0) read_some();
    return !buffer_.empty();
}

void Subprocess::kill() {
    if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

std::string Subprocess::end(std::chrono::duration<double> limit) {
    close_fd(to_);
    const auto deadline = Clock::now() + limit;
    while (pid_ > 0) {
        int status = 0;
        const bool late = Clock::now() >= deadline;
        if (late) kill();
        pid_t r = waitpid(pid_, &status, late ? 0 : WNOHANG);
        if (r == pid_) {
            ending_ = WIFSIGNALED(status) ? cat("signal ", WTERMSIG(status))
                                          : cat("exit code ", WEXITSTATUS(status));
            kill();  // what it left behind in its group
            pid_ = -1;
        } else if (r == 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        } else if (errno != EINTR) {
            ending_ = "lost";  // reaped by someone else
            pid_ = -1;
        }
    }
    return ending_;
}

}  // namespace fp8rl::rl

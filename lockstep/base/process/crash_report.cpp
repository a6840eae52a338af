#include "lockstep/base/process/crash_report.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

#include "lockstep/base/fd.h"
#include "lockstep/base/process/tree.h"

namespace lockstep {
namespace {

constexpr const char* kErrorFile = "TORCHELASTIC_ERROR_FILE";

// A signal handler can reach only static storage; this is the one place that has some.
char error_path[4096];
char rank_text[16];
std::atomic<pid_t> reporter{0};  // The thread that writes the report; 0 while nobody died.
std::atomic<bool> reported{false};
alignas(16) char alternate_stack[64 * 1024];
std::atomic<CrashRemark> remark{nullptr};

constexpr int kFatalSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// The bytes of the UTF-8 character at `text`, 2 to 4; 0 if there is none.
int utf8_length(const char* text) {
  const auto byte_at = [&](int i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(0);
  const int length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) {
    return 0;
  }
  for (int i = 1; i < length; ++i) {
    if ((byte_at(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  const bool overlong =
      (first == 0xe0 && byte_at(1) < 0xa0) || (first == 0xf0 && byte_at(1) < 0x90);
  const bool surrogate = first == 0xed && byte_at(1) >= 0xa0;
  const bool too_large = first == 0xf4 && byte_at(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

// A JSON writer that allocates nothing, so that it can run in a signal handler.
class JsonFile {
 public:
  explicit JsonFile(const char* path)
      : fd_(::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  ~JsonFile() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }

  // Whether everything so far is in the file.
  bool flush() {
    ok_ = write_all(fd_, {buffer_, used_}) && ok_;
    used_ = 0;
    return ok_;
  }

  void raw(const char* text) {
    for (; *text != '\0'; ++text) {
      put(*text);
    }
  }

  void escaped(const char* text) {
    for (; *text != '\0'; ++text) {
      const auto byte = static_cast<unsigned char>(*text);
      if (byte == '"' || byte == '\\') {
        put('\\');
        put(*text);
      } else if (byte == '\n') {
        raw("\\n");
      } else if (byte < 0x20) {
        put(' ');
      } else if (byte < 0x80) {
        put(*text);
      } else if (const int length = utf8_length(text); length > 0) {
        for (int i = 0; i < length; ++i) {
          put(text[i]);
        }
        text += length - 1;
      } else {
        put('?');  // JSON is UTF-8; one bad byte would cost the reader the whole report.
      }
    }
  }

  void number(unsigned long long value, unsigned base = 10) {
    char digits[24];
    char* at = digits + sizeof digits - 1;
    *at = '\0';
    do {
      *--at = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    raw(at);
  }

 private:
  void put(char c) {
    if (used_ == sizeof buffer_) {
      flush();
    }
    buffer_[used_++] = c;
  }

  int fd_;
  bool ok_ = true;
  std::size_t used_ = 0;
  char buffer_[512];
};

void begin_message(JsonFile& file) { file.raw(R"({"message": {"message": ")"); }
void begin_extra(JsonFile& file) { file.raw(R"(", "extraInfo": {"py_callstack": ")"); }
bool end_report(JsonFile& file) {
  file.raw(R"(", "timestamp": ")");
  file.number(static_cast<unsigned long long>(std::time(nullptr)));
  file.raw("\"}}}\n");
  return file.flush();
}

// One line per frame: program or library, offset, and the function where it is exported.
void write_backtrace(JsonFile& file) {
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    file.raw("  #");
    file.number(static_cast<unsigned long long>(i));
    file.raw(" ");
    if (::dladdr(frames[i], &info) != 0 && info.dli_fname != nullptr) {
      file.escaped(info.dli_fname);
      file.raw("+0x");
      file.number(static_cast<unsigned long long>(static_cast<char*>(frames[i]) -
                                                  static_cast<char*>(info.dli_fbase)),
                  16);
      if (info.dli_sname != nullptr) {
        file.raw(" ");
        file.escaped(info.dli_sname);
      }
    } else {
      file.raw("0x");
      file.number(reinterpret_cast<unsigned long long>(frames[i]), 16);
    }
    file.raw("\\n");
  }
}

// True for the first thread that dies. Any other waits until the report is written (at most 5 s),
// because the process ends when it returns; a thread that dies again while it reports does not
// wait.
bool may_report() {
  pid_t nobody = 0;
  if (reporter.compare_exchange_strong(nobody, ::gettid())) {
    return true;
  }
  for (int i = 0; i < 5000 && !reported && reporter != ::gettid(); ++i) {
    constexpr timespec kMillisecond{0, 1'000'000};
    ::nanosleep(&kMillisecond, nullptr);
  }
  return false;
}

void on_fatal_signal(int signal) {
  if (may_report()) {
    JsonFile file(error_path);
    if (file.is_open()) {
      begin_message(file);
      file.raw("rank ");
      file.escaped(rank_text);
      file.raw(": Signal ");
      file.number(static_cast<unsigned long long>(signal));
      file.raw(" (");
      const char* name = ::sigabbrev_np(signal);
      file.raw("SIG");
      file.escaped(name != nullptr ? name : "?");
      file.raw(") received by PID ");
      file.number(static_cast<unsigned long long>(::getpid()));
      begin_extra(file);
      write_backtrace(file);
      end_report(file);
    }
    reported = true;
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

std::string describe_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) {
    return "std::terminate without an exception";
  }
  int status = 0;
  char* demangled = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
  std::string text = status == 0 ? demangled : type->name();
  std::free(demangled);
  try {
    throw;
  } catch (const std::exception& error) {
    text += std::string(": ") + error.what();
  } catch (...) {
    text += " (no std::exception)";
  }
  return text;
}

void on_terminate() {
  if (may_report()) {
    std::string what = std::string("rank ") + rank_text + ": " + describe_current_exception();
    if (const auto more = remark.load()) {
      what += more(what);
    }
    JsonFile file(error_path);
    if (file.is_open()) {
      begin_message(file);
      file.escaped(what.c_str());
      begin_extra(file);
      write_backtrace(file);
      end_report(file);
    }
    std::fprintf(stderr, "uncaught exception on %s\n", what.c_str());
    reported = true;
  }
  std::abort();
}

bool inside_python() { return ::dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr; }

}  // namespace

bool install_crash_report(const Environment& environment) {
  const auto path = environment.get(kErrorFile);
  if (!path || path->size() >= sizeof error_path || inside_python()) {
    return false;
  }
  error_path[path->copy(error_path, sizeof error_path - 1)] = '\0';
  const std::string rank = environment.get("RANK").value_or("?");
  rank_text[rank.copy(rank_text, sizeof rank_text - 1)] = '\0';
  void* frame[1];
  ::backtrace(frame, 1);  // Loads libgcc now; it must not be loaded inside a handler.

  stack_t current{};
  if (::sigaltstack(nullptr, &current) == 0 && (current.ss_flags & SS_DISABLE) != 0) {
    stack_t stack{};
    stack.ss_sp = alternate_stack;
    stack.ss_size = sizeof alternate_stack;
    ::sigaltstack(&stack, nullptr);
  }
  for (const int signal : kFatalSignals) {
    struct sigaction present{};
    if (::sigaction(signal, nullptr, &present) != 0 || present.sa_handler != SIG_DFL) {
      continue;
    }
    struct sigaction action{};
    action.sa_handler = on_fatal_signal;
    action.sa_flags = SA_ONSTACK;
    ::sigaction(signal, &action, nullptr);
  }
  if (std::get_terminate() == &__gnu_cxx::__verbose_terminate_handler) {
    std::set_terminate(on_terminate);
  }
  return true;
}

void set_crash_remark(CrashRemark the_remark) { remark = the_remark; }

void tell_launcher(const Environment& environment, const std::string& message) {
  if (const auto path = environment.get(kErrorFile)) {
    write_error_file(*path, message, "");  // Nobody is left to tell that it failed.
  }
}

bool write_error_file(const std::string& path, const std::string& message,
                      const std::string& backtrace) {
  JsonFile file(path.c_str());
  if (!file.is_open()) {
    return false;
  }
  begin_message(file);
  file.escaped(message.c_str());
  begin_extra(file);
  file.escaped(backtrace.c_str());
  return end_report(file);
}

}  // namespace lockstep

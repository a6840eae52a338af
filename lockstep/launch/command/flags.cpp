#include "lockstep/launch/command/flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/base/text/nearest.h"
#include "lockstep/base/text/text.h"

namespace lockstep::launch {
namespace {

enum class Kind { kValue, kSwitch, kNotYet, kNotYetSwitch };

struct Flag {
  std::string_view name;
  std::string_view value_name;
  std::string_view help;
  Kind kind;
  char letter = '\0';
  bool in_environment = true;  // Whether torchrun reads PET_<NAME> for it.

  [[nodiscard]] bool takes_value() const { return kind == Kind::kValue || kind == Kind::kNotYet; }
  [[nodiscard]] bool supported() const { return kind == Kind::kValue || kind == Kind::kSwitch; }
};

constexpr Flag kFlags[] = {
    {"nproc-per-node", "N|auto|gpu|cpu", "workers on this node [1]", Kind::kValue},
    {"nnodes", "N", "number of nodes [1, or all of the srun, mpirun or pbsdsh around us]",
     Kind::kValue},
    {"node-rank", "R", "this node's rank [0; c10d: by host name]", Kind::kValue},
    {"master-addr", "HOST", "address of node 0 [127.0.0.1]", Kind::kValue},
    {"master-port", "PORT", "port on node 0 [one node: any free; several: 29500]", Kind::kValue},
    {"standalone", "", "one node (the default here: nothing to set up)", Kind::kSwitch},
    {"rdzv-backend", "static|c10d", "how nodes find each other [static]", Kind::kValue},
    {"rdzv-endpoint", "HOST[:PORT]", "where they meet [static: the master]", Kind::kValue},
    {"rdzv-id", "NAME", "name of the job, the same on all nodes", Kind::kValue},
    {"join-timeout", "SECONDS", "how long to wait for all nodes [900]", Kind::kValue, '\0', false},
    {"node-timeout", "SECONDS", "how long a node may be silent before it is lost [15]",
     Kind::kValue, '\0', false},
    {"max-restarts", "N", "restarts of the whole group after a failure [0]", Kind::kValue},
    {"no-restart-on", "CODES", "exit codes of workers that no restart follows, such as 2,64",
     Kind::kValue, '\0', false},
    {"shutdown-timeout", "SECONDS", "from SIGTERM to SIGKILL [30]", Kind::kValue},
    {"signals-to-handle", "NAMES",
     "signals passed on to the workers [SIGTERM,SIGINT,SIGHUP,SIGQUIT]", Kind::kValue},
    {"monitor-interval", "SECONDS", "accepted; we are woken by events instead", Kind::kValue},
    {"gpu-ids", "1,6,3", "use these GPUs, in this order; one worker each", Kind::kValue, '\0',
     false},
    {"log-dir", "DIR", "keep the output of every worker below DIR", Kind::kValue},
    {"redirects", "0-3|R:0-3,...", "1 stdout, 2 stderr, 3 both: to files only", Kind::kValue, 'r'},
    {"tee", "0-3|R:0-3,...", "the same, to files and prefixed to the console", Kind::kValue, 't'},
    {"local-ranks-filter", "0,1", "show only these local ranks on the console", Kind::kValue},
    {"log-line-prefix-template", "TEXT",
     "prefix of --tee lines [[${role_name}${local_rank}]:]; also ${rank}, ${hostname}",
     Kind::kValue},
    {"module", "", "PROGRAM is a Python module, as in python -m", Kind::kSwitch, 'm'},
    {"no-python", "", "execute PROGRAM even if it ends in .py", Kind::kSwitch},
    {"role", "NAME", "name of the workers' role [default]", Kind::kValue},
    {"local-addr", "HOST", "this node's name in messages and node order", Kind::kValue},
    {"help", "", "this text", Kind::kSwitch, 'h', false},
    {"rdzv-conf", "", "", Kind::kNotYet},
    {"start-method", "", "", Kind::kNotYet},
    {"event-log-handler", "", "", Kind::kNotYet},
    {"run-path", "", "", Kind::kNotYetSwitch},
    {"duplicate-stdout-filters", "", "", Kind::kNotYet},
    {"duplicate-stderr-filters", "", "", Kind::kNotYet},
    {"logs-specs", "", "", Kind::kNotYet, '\0', false},
    {"numa-binding", "", "", Kind::kNotYet, '\0', false},
    {"virtual-local-rank", "", "", Kind::kNotYetSwitch},
    {"print-completion", "", "", Kind::kNotYet, '\0', false},
};

struct Alias {
  std::string_view name;
  std::string_view flag;
};
constexpr Alias kAliases[] = {
    {"nodes", "nnodes"}, {"gpus", "nproc-per-node"}, {"nr", "node-rank"}, {"gpu-idx", "gpu-ids"}};

const Flag* find_flag(std::string_view name) {
  for (const auto& alias : kAliases) {
    if (alias.name == name) {
      name = alias.flag;
    }
  }
  const auto* found = std::find_if(std::begin(kFlags), std::end(kFlags),
                                   [&](auto& flag) { return flag.name == name; });
  return found == std::end(kFlags) ? nullptr : found;
}

const Flag* find_letter(char letter) {
  const auto* found = std::find_if(std::begin(kFlags), std::end(kFlags),
                                   [&](auto& flag) { return flag.letter == letter; });
  return found == std::end(kFlags) || letter == '\0' ? nullptr : found;
}

[[noreturn]] void throw_unknown(std::string_view given) {
  std::vector<std::string> names;
  for (const auto& flag : kFlags) {
    names.push_back("--" + std::string(flag.name));
  }
  const auto meant = nearest_name(given, names);
  throw UsageError(
      "unknown flag " + std::string(given) + "\nHINT: " +
      (meant ? "did you mean " + *meant + "?" : "'lockstep run --help' lists the flags"));
}

[[noreturn]] void throw_not_yet(std::string_view what) {
  throw UsageError(std::string(what) +
                   ": this flag of torchrun is not yet supported by lockstep run");
}

std::string environment_name(std::string_view flag) {
  std::string name = "PET_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

struct Word {
  const Flag* flag = nullptr;
  std::string shown;                 // As the user wrote it, for messages.
  std::optional<std::string> value;  // What came with it: --flag=value, -r3.
};

Word parse_long(std::string_view text) {
  const auto equals = text.find('=');
  Word word;
  word.shown = text.substr(0, equals);
  std::string name = word.shown.substr(2);
  std::replace(name.begin(), name.end(), '_', '-');
  word.flag = find_flag(name);
  if (word.flag == nullptr) {
    throw_unknown(word.shown);
  }
  if (equals != std::string_view::npos) {
    word.value = text.substr(equals + 1);
  }
  return word;
}

Word parse_short(std::string_view text) {
  Word word;
  word.shown = text.substr(0, 2);
  word.flag = find_letter(text[1]);
  if (word.flag == nullptr || (!word.flag->takes_value() && text.size() > 2)) {
    throw_unknown(text);
  }
  if (text.size() > 2) {
    word.value = text.substr(text[2] == '=' ? 3 : 2);
  }
  return word;
}

// Stores one flag; `next` is the following word, if any. Returns whether it was used up.
bool take(const Word& word, const std::string* next, FlagValues& result) {
  if (!word.flag->supported()) {
    throw_not_yet(word.shown);
  }
  const std::string name(word.flag->name);
  if (!word.flag->takes_value()) {
    if (word.value) {
      throw UsageError(word.shown + " takes no value, but '" + *word.value + "' was given");
    }
    result.values.insert_or_assign(name, std::string(1, '1'));
    return false;
  }
  if (!word.value && next == nullptr) {
    throw UsageError(word.shown + " needs a value: " + word.shown + " " +
                     std::string(word.flag->value_name));
  }
  result.values[name] = word.value ? *word.value : *next;
  return !word.value;
}

void add_environment(const Environment& environment, FlagValues& result) {
  for (const auto& flag : kFlags) {
    const std::string variable = environment_name(flag.name);
    const auto value = flag.in_environment ? environment.get(variable) : std::nullopt;
    if (!value || result.has(flag.name) || (!flag.takes_value() && *value == "0")) {
      continue;
    }
    if (!flag.supported()) {
      throw_not_yet("environment variable " + variable);
    }
    if (!flag.takes_value() && !parse_int(*value)) {
      throw UsageError("environment variable " + variable + " is '" + *value +
                       "', expected 0 or 1");
    }
    result.values[std::string(flag.name)] = flag.takes_value() ? *value : "1";
  }
}

}  // namespace

std::optional<std::string> FlagValues::get(std::string_view name) const {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

FlagValues scan_flags(const std::vector<std::string>& arguments, const Environment& environment) {
  FlagValues result;
  std::size_t i = 0;
  while (i < arguments.size()) {
    const std::string& text = arguments[i];
    if (text == "--") {
      ++i;
      break;
    }
    if (text.size() < 2 || text[0] != '-') {
      break;
    }
    const Word word = text[1] == '-' ? parse_long(text) : parse_short(text);
    const std::string* next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
    i += take(word, next, result) ? 2 : 1;
  }
  result.command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  add_environment(environment, result);
  return result;
}

std::string describe_flags() {
  std::string text;
  for (const auto& flag : kFlags) {
    if (!flag.supported()) {
      continue;
    }
    std::string left = "  ";
    if (flag.letter != '\0') {
      left += {'-', flag.letter, ',', ' '};
    }
    left.append("--").append(flag.name);
    if (flag.takes_value()) {
      left.append(" ").append(flag.value_name);
    }
    left.resize(std::max<std::size_t>(left.size() + 2, 38), ' ');
    text.append(left).append(flag.help).append("\n");
  }
  return text;
}

}  // namespace lockstep::launch

#include "lockstep/train/program/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <limits>
#include <type_traits>

#include "lockstep/base/error.h"
#include "lockstep/base/text/text.h"
#include "lockstep/train/config/option_table.h"
#include "lockstep/train/program/wrong_flags.h"

namespace lockstep::train {
namespace {

constexpr const char* kIntroduction =
    "lockstep train [DATA] [FLAGS]\n"
    "Trains a classifier of images or of the rows of a table, on as many ranks as there are: "
    "those\n"
    "of lockstep run, torchrun, srun, mpirun, or --nproc of its own.\n";

constexpr const char* kExamples =
    "\n  lockstep train --nproc 2\n"
    "  lockstep train photos/ --model resnet18 --epochs 30 --amp bf16 --global-batch-size 256\n"
    "  lockstep train --config runs/photos-resnet18/config.toml\n"
    "A run that was stopped goes on with the same command.\n";

template <class Number>
std::string number_kind() {
  return std::is_floating_point_v<Number> ? "a number"
         : std::is_unsigned_v<Number>     ? "a whole number of 0 or more"
                                          : "a whole number";
}

template <class Number>
std::string most() {
  return std::to_string(std::numeric_limits<Number>::max());
}

template <class Number>
bool is_too_large(const std::string& text) {
  if constexpr (std::is_integral_v<Number>) {
    Number number{};
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    return read.ec == std::errc::result_out_of_range;
  }
  return false;
}

// Before CLI11 converts it: CLI11 takes -1 for a large unsigned number, the largest number for one
// that is larger, and does not say what is expected.
template <class Number>
void require_number(CLI::Option* option) {
  option->check([name = option->get_name()](const std::string& text) -> std::string {
    Number number{};
    const bool is_negative = std::is_unsigned_v<Number> && text.starts_with('-');
    if (is_negative || is_too_large<Number>(text) || !CLI::detail::lexical_cast(text, number)) {
      const bool is_large = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
      throw UsageError(name + " is '" + text + "', expected " + number_kind<Number>() +
                       (is_large ? " of at most " + most<Number>() : ""));
    }
    return "";
  });
}

void add_train_flags(CLI::App& app, TrainConfig& config) {
  visit_options(config, [&](const OptionInfo& info, auto& member) {
    using Member = std::remove_cvref_t<decltype(member)>;
    CLI::Option* option = nullptr;
    if constexpr (std::is_same_v<Member, bool>) {
      option = app.add_flag(info.names, member, info.help);
    } else if constexpr (std::is_same_v<Member, std::vector<std::int64_t>>) {
      option = app.add_option(info.names, member, info.help)->delimiter(',')->expected(1, 1000);
      require_number<std::int64_t>(option);
    } else {
      option = app.add_option(info.names, member, info.help)->capture_default_str()->take_last();
      if constexpr (std::is_arithmetic_v<Member>) {
        require_number<Member>(option);
      }
    }
    option->group(info.group);
  });
}

void add_job_flags(CLI::App& app, JobConfig& job) {
  const auto add = [&](const char* names, auto& member, const char* help) {
    auto* option = app.add_option(names, member, help)->capture_default_str()->take_last();
    option->group("Ranks");
    using Member = std::remove_cvref_t<decltype(member)>;
    if constexpr (std::is_arithmetic_v<Member>) {
      require_number<Member>(option);
    }
  };
  add("--nproc,--gpus,-g,--nproc-per-node", job.nproc,
      "ranks to start on this machine; 0: one for each GPU, else one");
  add("--nodes,-n,--nnodes", job.nodes, "machines of the job");
  add("--nr,--node-rank", job.node_rank, "which of them this is");
  add("--master-addr", job.master_addr, "address of machine 0");
  add("--master-port", job.master_port, "port on machine 0; 0: 29500, or any on one machine");
  add("--dist-url", job.dist_url, "tcp://HOST:PORT, with --rank and --world-size");
  add("--rank", job.rank, "of --dist-url");
  add("--world-size", job.world_size, "of --dist-url");
  add("--gpu-ids,--gpu-idx", job.gpu_ids, "1,6,3: use these GPUs, in this order");
  add("--backend,--dist-backend", job.backend, "gloo, shm, lockstep, nccl or mpi");
  add("--timeout", job.timeout_seconds, "seconds to wait for a rank");
  add("--max-restarts", job.max_restarts, "starts all ranks again when one dies");
  add("--join-timeout", job.join_timeout_seconds,
      "seconds to wait for all machines of --nodes; 0: 900");
  add("--log-dir", job.log_dir, "folder for what each rank prints, instead of the run's log/");
  add("--shutdown-timeout", job.shutdown_timeout_seconds,
      "seconds that ranks have to save and end after a signal; 0: 30");
  // Old launchers of PyTorch pass it; the environment says it, too.
  app.add_option("--local-rank,--local_rank", "accepted, and not needed")->group("Ranks");
}

// Reads the words of the command line alone, which win over the file of --config.
void settle_batch_size(TrainConfig& config, int argc, const char* const* argv) {
  CLI::App words;
  TrainConfig unused;
  JobConfig unused_too;
  words.allow_extras();
  words.add_option("--config,-c")->take_last();
  add_train_flags(words, unused);
  add_job_flags(words, unused_too);
  words.parse(argc, argv);
  const bool has_own = words.count("--batch-size") > 0;
  const bool has_global = words.count("--global-batch-size") > 0;
  if (has_own && has_global && config.global_batch_size != 0) {
    throw UsageError(
        "--batch-size and --global-batch-size are both given, expected one of them; HINT: leave "
        "--batch-size out");
  }
  if (has_own) {
    config.global_batch_size = 0;
  } else if (has_global) {
    config.batch_size = TrainConfig{}.batch_size;
  }
}

std::string help_of(const CLI::App& app, const std::vector<std::string>& networks) {
  return kIntroduction + app.help() + "\nNetworks: " + join(networks, ", ") + "\n" + kExamples;
}

}  // namespace

std::string to_toml(const JobConfig& job) {
  std::string toml;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "0") {
      toml += std::string(name) + " = " + value + "\n";
    }
  };
  const auto quoted = [](const std::string& text) { return text.empty() ? "" : '"' + text + '"'; };
  add("nproc", std::to_string(job.nproc));
  add("nodes", job.nodes > 1 ? std::to_string(job.nodes) : "");
  add("master-addr", quoted(job.master_addr));
  add("master-port", std::to_string(job.master_port));
  add("gpu-ids", quoted(job.gpu_ids));
  add("backend", quoted(job.backend));
  add("timeout", std::to_string(job.timeout_seconds));
  add("max-restarts", std::to_string(job.max_restarts));
  add("join-timeout", std::to_string(job.join_timeout_seconds));
  add("log-dir", quoted(job.log_dir));
  add("shutdown-timeout", std::to_string(job.shutdown_timeout_seconds));
  return toml;
}

CommandLine parse_command_line(int argc, const char* const* argv,
                               const std::vector<std::string>& networks) {
  CommandLine line;
  CLI::App app;
  app.name("lockstep train");
  app.allow_extras();
  app.set_config("--config,-c", "", "TOML file of flags; those of the command line win");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.get_option("--config")->group("Run")->take_last();
  require_values(argc, argv);
  add_train_flags(app, line.train);
  add_job_flags(app, line.job);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help_of(app, networks).c_str(), stdout);
    line.exit_code = 0;
    return line;
  } catch (const CLI::ParseError& error) {
    refuse(app, error);
  } catch (const UsageError& error) {  // A number that is none: require_number().
    require_sound_files(app, error.what());
    throw;
  }
  if (!app.remaining().empty()) {
    refuse_extras(app);
  }
  require_one_data(*app.get_option("--data-dir"), argc, argv);
  settle_batch_size(line.train, argc, argv);
  if (const auto files = config_files(app); !files.empty()) {
    line.config_file = files.back();
  }
  return line;
}

}  // namespace lockstep::train

// weir serve-job: one server of a job, as srun starts it on a node.

#include <memory>

#include <weir/cli/internal/fs_connect.h>
#include <weir/cli/internal/run_command.h>
#include <weir/launch/slurm.h>

namespace weir::cli::internal {

void add_serve_job(CLI::App& app, Selection& selection) {
  CLI::App* command = app.add_subcommand("serve-job", "A server of a job; started by `weir run` through srun");
  command->group("");
  auto options = std::make_shared<launch::ServeJobOptions>();
  command->add_option("--secret", options->secret_file)->required();
  command->add_option("--on-node", options->on_node);
  command->add_option("--store", options->store);
  command->add_option("--file-system", options->file_system);
  add_size(*command, "--capacity", options->capacity, "Of the store");
  add_ahead(*command, options->ahead);
  add_verify_memory(*command, options->verifies_memory);
  command->callback(
      [&selection, options] { selection.action = [options](Console&) { return launch::serve_job(*options); }; });
}

}  // namespace weir::cli::internal

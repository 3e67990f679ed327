#include "cli/cli.hpp"

int main(int argc, char** argv) { return semel::cli::run(argc, argv); }

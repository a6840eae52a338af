// Open MPI's MPI_Allreduce on float32, in place: one contender in `lockstep bench allreduce`.
//
//   mpirun -n 2 mpi_allreduce PIPE LARGEST_BYTES [SPOILED]
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "benchmarks/allreduce/job.h"

static int rank, ranks;
static long operation = 0;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail(const char* text) {
  fprintf(stderr, "mpi_allreduce on rank %d of %d: %s\n", rank, ranks, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const float* data, size_t count) {
  const size_t places[] = {0, count / 2, count - 1};
  for (int i = 0; i < 3; ++i) {
    const float expected = pattern_sum(ranks, operation, places[i]);
    if (data[places[i]] != expected) {
      char text[160];
      snprintf(text, sizeof text, "mpi, %zu bytes: element %zu is %g, expected %g",
               count * sizeof *data, places[i], data[places[i]], expected);
      fail(text);
    }
  }
}

static double reduce(float* data, size_t count) {
  fill(data, count, rank, operation);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = now();
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return now() - start;
}

static void carry_out(const struct Order* order, float* data, int spoiled) {
  const size_t count = order->bytes / sizeof *data;
  double* seconds = malloc((size_t)order->repetitions * sizeof *seconds);
  long checked = 0;
  for (int i = 0; i < order->repetitions; ++i, ++operation) {
    seconds[i] = reduce(data, count);
    if (spoiled && rank == ranks - 1) {
      data[count - 1] += 1;
    }
    check(data, count);
    ++checked;
  }
  long all_checked = 0;
  MPI_Reduce(&checked, &all_checked, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("{\"contender\": \"mpi\", \"bytes\": %zu, \"checked\": %ld, \"seconds\": [",
           order->bytes, all_checked);
    for (int i = 0; i < order->repetitions; ++i) {
      printf("%s%.9f", i == 0 ? "" : ", ", seconds[i]);
    }
    printf("]}\n");
    fflush(stdout);
  }
  free(seconds);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int orders = argc < 3 ? -1 : open(argv[1], O_RDONLY);
  if (orders < 0) {
    fail("usage: mpi_allreduce PIPE LARGEST_BYTES [SPOILED], with a pipe that can be opened");
  }
  float* data = malloc(strtoull(argv[2], NULL, 10));
  const int spoiled = argc > 3 && strcmp(argv[3], "mpi") == 0;
  struct Order order;
  int got = 0;
  while ((got = read_order(orders, &order)) > 0) {
    carry_out(&order, data, spoiled);
  }
  if (got < 0) {
    fail("what it was told is no order");
  }
  free(data);
  MPI_Finalize();
  return 0;
}

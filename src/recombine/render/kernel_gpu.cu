// Entry points for the GPU: one thread per ray, one block per 16 x 16 rays of one picture.

static __device__ Scene scene_at(const float* view, const float* solids, const float* look,
                                 int count, long long i) {
  Scene r = {view + i * VIEW, solids + i * count * SOLID, look, count};
  return r;
}

extern "C" __global__ void trace(const float* view, const float* solids, const float* look,
                                 float* fine, int count, int size) {
  int side = 2 * size, tiles = (side + 15) / 16;
  int row = blockIdx.y / tiles * 16 + threadIdx.y, column = blockIdx.y % tiles * 16 + threadIdx.x;
  if (row >= side || column >= side) return;
  long long i = blockIdx.x;
  float u = column % 2 ? 0.25f : -0.25f, v = row % 2 ? 0.25f : -0.25f;
  Vector colour = seen(scene_at(view, solids, look, count, i), column, row, u, v, side);
  float* out = fine + (3 * i * side + row) * side + column;
  out[0] = colour.x;
  out[(long long)side * side] = colour.y;
  out[2LL * side * side] = colour.z;
}

extern "C" __global__ void see(const float* view, const float* solids, int* which, float* depth,
                               int count, int side) {
  int tiles = (side + 15) / 16;
  int row = blockIdx.y / tiles * 16 + threadIdx.y, column = blockIdx.y % tiles * 16 + threadIdx.x;
  if (row >= side || column >= side) return;
  long long i = blockIdx.x;
  int solid;
  float far;
  first_solid(scene_at(view, solids, 0, count, i), column, row, side, &solid, &far);
  which[(i * side + row) * side + column] = solid;
  depth[(i * side + row) * side + column] = far;
}

extern "C" __global__ void develop(const float* fine, float* image, int size, int pixels) {
  int k = blockIdx.x * 256 + threadIdx.x;
  if (k >= pixels) return;
  int side = 2 * size, column = k % size, row = k / size % size;
  const float* plane = fine + (long long)(k / (size * size)) * side * side;
  const float taps[4] = {1.0f / 6, 2.0f / 6, 2.0f / 6, 1.0f / 6};
  float sum = 0;
  for (int a = 0; a < 4; a++) {
    int r = min(max(2 * row - 1 + a, 0), side - 1);
    for (int b = 0; b < 4; b++) {
      int c = min(max(2 * column - 1 + b, 0), side - 1);
      sum += taps[a] * taps[b] * plane[r * side + c];
    }
  }
  sum = min(max(sum, 0.0f), 1.0f);
  image[k] = sum <= 0.0031308f ? 12.92f * sum : 1.055f * powf(sum, 1.0f / 2.4f) - 0.055f;
}

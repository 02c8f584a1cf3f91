// Entry points for the CPU: tiles of four by four rays.

FN Scene scene_at(const float* view, const float* solids, const float* look, int count, long i) {
  Scene r = {view + i * VIEW, solids + i * count * SOLID, look, count};
  return r;
}

FN void tile(int row, int column, Real* rows, Real* columns) {
  for (int i = 0; i < LANES; i++) {
    (*rows)[i] = (float)(row + i / 4);
    (*columns)[i] = (float)(column + i % 4);
  }
}

static float encoded(float a) {
  a = a < 0.0f ? 0.0f : a > 1.0f ? 1.0f : a;
  return a <= 0.0031308f ? 12.92f * a : 1.055f * powf(a, 1.0f / 2.4f) - 0.055f;
}

static inline int within(int a, int most) { return a < 0 ? 0 : a > most ? most : a; }

// Weigh four by four rays into each pixel (develop).
static void develop(const float* fine, float* image, int size) {
  const float taps[4] = {1.0f / 6, 2.0f / 6, 2.0f / 6, 1.0f / 6};
  int side = 2 * size;
  for (int row = 0; row < size; row++)
    for (int column = 0; column < size; column++) {
      float sum = 0;
      for (int i = 0; i < 4; i++) {
        const float* line = fine + (long)within(2 * row - 1 + i, side - 1) * side;
        float part = 0;
        for (int j = 0; j < 4; j++) part += taps[j] * line[within(2 * column - 1 + j, side - 1)];
        sum += taps[i] * part;
      }
      image[row * size + column] = encoded(sum);
    }
}

extern "C" void trace(const float* view, const float* solids, const float* look, float* fine,
                      float* image, int count, int size, long first, long last) {
  int side = 2 * size;
  for (long i = first; i < last; i++) {
    Scene scene = scene_at(view, solids, look, count, i);
    for (int row = 0; row < side; row += 4)
      for (int column = 0; column < side; column += 4) {
        Real rows, columns, u, v;
        tile(row, column, &rows, &columns);
        for (int k = 0; k < LANES; k++) {
          u[k] = k % 2 ? 0.25f : -0.25f;
          v[k] = k / 4 % 2 ? 0.25f : -0.25f;
        }
        Vector colour = seen(scene, columns, rows, u, v, side);
        for (int k = 0; k < LANES; k++) {
          int r = row + k / 4, c = column + k % 4;
          if (r >= side || c >= side) continue;
          fine[r * side + c] = colour.x[k];
          fine[(side + r) * side + c] = colour.y[k];
          fine[(2 * side + r) * side + c] = colour.z[k];
        }
      }
    for (int channel = 0; channel < 3; channel++)
      develop(fine + (long)channel * side * side, image + (3 * i + channel) * size * size, size);
  }
}

extern "C" void see(const float* view, const float* solids, int32_t* which, float* depth, int count,
                    int side, long first, long last) {
  for (long i = first; i < last; i++) {
    Scene scene = scene_at(view, solids, 0, count, i);
    for (int row = 0; row < side; row += 4)
      for (int column = 0; column < side; column += 4) {
        Real rows, columns, far;
        Number solid;
        tile(row, column, &rows, &columns);
        first_solid(scene, columns, rows, side, &solid, &far);
        for (int k = 0; k < LANES; k++) {
          int r = row + k / 4, c = column + k % 4;
          if (r >= side || c >= side) continue;
          which[(i * side + r) * side + c] = solid[k];
          depth[(i * side + r) * side + c] = far[k];
        }
      }
  }
}

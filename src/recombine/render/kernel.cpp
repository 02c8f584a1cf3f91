// The ray caster of raycast.py as one source for CPU (g++, sixteen rays at a time) and GPU (NVRTC,
// one ray per thread). Column numbers and formulas are those of stage.py, geometry.py and
// raycast.py, in their order: without fused multiply-adds `see` agrees with them to the last bit.

#ifdef __CUDACC__
#define FN static __device__ __forceinline__
typedef float Real;
typedef bool Mask;
typedef int Number;
FN Real root(Real a) { return sqrtf(a); }
FN Real size_of(Real a) { return fabsf(a); }
FN Real pick(Mask m, Real a, Real b) { return m ? a : b; }
FN Number pick_number(Mask m, Number a, Number b) { return m ? a : b; }
FN bool some(Mask m) { return m; }
FN Real column(const float* rows, Number row, int at) { return rows[row * 16 + at]; }
FN Mask none() { return false; }
FN Real fill(float a) { return a; }
FN Number number(int a) { return a; }
#else
#include <math.h>
#include <stdint.h>
#define FN static inline __attribute__((always_inline))
#define LANES 16
typedef float Real __attribute__((vector_size(4 * LANES)));
typedef int32_t Number __attribute__((vector_size(4 * LANES)));
typedef Number Mask;
FN Real root(Real a) {
  Real r;
  for (int i = 0; i < LANES; i++) r[i] = sqrtf(a[i]);
  return r;
}
FN Real pick(Mask m, Real a, Real b) { return m ? a : b; }
FN Number pick_number(Mask m, Number a, Number b) { return m ? a : b; }
FN Real size_of(Real a) { return pick(a < 0.0f, -a, a); }
FN bool some(Mask m) {
  int32_t r = 0;
  for (int i = 0; i < LANES; i++) r |= m[i];
  return r;
}
FN Real column(const float* rows, Number row, int at) {
  Real r;
  for (int i = 0; i < LANES; i++) r[i] = rows[row[i] * 16 + at];
  return r;
}
FN Mask none() { return (Mask){}; }
FN Real fill(float a) { return (Real){} + a; }
FN Number number(int a) { return (Number){} + a; }
#endif

FN Real smaller(Real a, Real b) { return pick(a < b, a, b); }
FN Real larger(Real a, Real b) { return pick(a > b, a, b); }
FN Real positive(Real a) { return larger(a, fill(0.0f)); }
FN Real sign(Real a) { return pick(a > 0.0f, fill(1.0f), pick(a < 0.0f, fill(-1.0f), fill(0.0f))); }

#define NEVER 1e9f
#define FAR 1e3f
#define NUDGE 1e-3f
enum { CENTRE = 0, COSINE = 3, SINE = 4, HALF = 5, RADIUS = 8, ROUND = 9, COLOUR = 10, METAL = 13,
       REACH = 14, BEVEL = 15, SOLID = 16 };
enum { EYE = 0, RIGHT = 3, UP = 6, FORWARD = 9, LAMPS = 12, FLOOR = 21, WALL = 24, ROOM = 27,
       VIEW = 28 };
enum { LAMP = 12, SUN = 36, TERMS = 42 };
enum { AMBIENT = TERMS, BOUNCE, RUBBER, METAL_DULL, METAL_MIRROR, METAL_SHINE, METAL_SECOND, GLOSS,
       SPREAD, SKY_BEHIND, BACKDROP };
#define BEHIND_X -0.7545f
#define BEHIND_Y 0.6563f

struct Vector { Real x, y, z; };
FN Vector vector(Real x, Real y, Real z) { Vector r = {x, y, z}; return r; }
FN Vector fixed(const float* a) { return vector(fill(a[0]), fill(a[1]), fill(a[2])); }
FN Vector plus(Vector a, Vector b) { return vector(a.x + b.x, a.y + b.y, a.z + b.z); }
FN Vector minus(Vector a, Vector b) { return vector(a.x - b.x, a.y - b.y, a.z - b.z); }
FN Vector times(Real k, Vector a) { return vector(k * a.x, k * a.y, k * a.z); }
FN Real dot(Vector a, Vector b) { return (a.x * b.x + a.y * b.y) + a.z * b.z; }
FN Vector unit(Vector a) { return times(1.0f / root(dot(a, a) + 1e-20f), a); }
FN Vector choose(Mask m, Vector a, Vector b) {
  return vector(pick(m, a.x, b.x), pick(m, a.y, b.y), pick(m, a.z, b.z));
}

// One picture: its view, its solids and the look they share.
struct Scene {
  const float *view, *solids, *look;
  int count;
};

FN void slab(Real place, Real slope, float half, Real* enter, Real* leave) {
  Real per = 1.0f / pick(size_of(slope) < 1e-9f, fill(1e-9f), slope);
  Real middle = -place * per, width = half * size_of(per);
  *enter = larger(*enter, middle - width);
  *leave = smaller(*leave, middle + width);
}

FN void span(Vector origin, Vector ray, const float* s, Real* enter, Real* leave) {
  Vector o = minus(origin, fixed(s + CENTRE));
  float cosine = s[COSINE], sine = s[SINE], round = s[ROUND], radius = s[RADIUS];
  Real x = cosine * o.x + sine * o.y, y = cosine * o.y - sine * o.x, z = o.z;
  Real dx = cosine * ray.x + sine * ray.y, dy = cosine * ray.y - sine * ray.x, dz = ray.z;
  Real a = ((dx * dx + dy * dy) + round * (dz * dz)) + 1e-12f;
  Real b = (x * dx + y * dy) + round * (z * dz);
  Real c = ((x * x + y * y) + round * (z * z)) - radius * radius;
  Real inside = b * b - a * c;
  Real half = root(larger(inside, fill(1e-20f)));
  *enter = pick(inside < 0.0f, fill(NEVER), (-b - half) / a);
  *leave = (half - b) / a;
  slab(x, dx, s[HALF], enter, leave);
  slab(y, dy, s[HALF + 1], enter, leave);
  slab(z, dz, s[HALF + 2], enter, leave);
}

FN Mask close(Vector origin, Vector ray, Real length, const float* s) {
  Vector gap = minus(fixed(s + CENTRE), origin);
  Real along = dot(gap, ray);
  return along * along > (dot(gap, gap) - s[REACH] * s[REACH]) * length;
}

FN void nearest(Scene scene, Vector origin, Vector ray, Real* distance, Number* which) {
  Real length = dot(ray, ray);
  *distance = fill(NEVER);
  *which = number(-1);
  for (int k = 0; k < scene.count; k++) {
    const float* s = scene.solids + k * SOLID;
    if (!(s[REACH] > 0.0f) || !some(close(origin, ray, length, s))) continue;
    Real enter, leave;
    span(origin, ray, s, &enter, &leave);
    Mask hit = (enter <= leave) & (enter > 0.0f) & (enter < *distance);
    *distance = pick(hit, enter, *distance);
    *which = pick_number(hit, number(k), *which);
  }
}

FN Mask blocked(Scene scene, Vector origin, Vector ray, float until, Mask wanted) {
  Real length = dot(ray, ray);
  Mask dark = none();
  for (int k = 0; k < scene.count; k++) {
    const float* s = scene.solids + k * SOLID;
    if (!(s[REACH] > 0.0f) || !some(wanted & close(origin, ray, length, s))) continue;
    Real enter, leave;
    span(origin, ray, s, &enter, &leave);
    dark = dark | ((enter <= leave) & (leave > 0.0f) & (enter < until));
    if (!some(wanted & (dark == none()))) break;
  }
  return dark;
}

FN void wall(float room, Real place, Real slope, int side, Real* distance, Number* which) {
  slope = pick(slope == 0.0f, fill(1e-9f), slope);
  Real there = (pick(slope > 0.0f, fill(room), fill(-room)) - place) / slope;
  Mask nearer = there < *distance;
  *distance = pick(nearer, there, *distance);
  *which = pick_number(nearer, number(side), *which);
}

FN void surroundings(Scene scene, Vector origin, Vector ray, Real* distance, Number* which) {
  Mask falls = ray.z < 0.0f;
  *distance = pick(falls, -origin.z / pick(falls, ray.z, fill(-1.0f)), fill(NEVER));
  *which = number(0);
  float room = scene.view[ROOM];
  if (room >= FAR) return;
  wall(room, origin.x, ray.x, 1, distance, which);
  wall(room, origin.y, ray.y, 2, distance, which);
}

FN Real beyond(Real place, Real limit) { return sign(place) * positive(size_of(place) - limit); }

FN Vector normal_of(Scene scene, Vector point, Number which) {
  const float* s = scene.solids;
  Real cosine = column(s, which, COSINE), sine = column(s, which, SINE);
  Real round = column(s, which, ROUND), bevel = column(s, which, BEVEL);
  Vector centre = vector(column(s, which, 0), column(s, which, 1), column(s, which, 2));
  Vector o = minus(point, centre);
  Real x = cosine * o.x + sine * o.y, y = cosine * o.y - sine * o.x, z = o.z;
  Real reach = root(((x * x + y * y) + round * (z * z)) + 1e-12f);
  Real over = positive(reach - (column(s, which, RADIUS) - bevel)) / reach;
  Real nx = over * x + beyond(x, column(s, which, HALF) - bevel);
  Real ny = over * y + beyond(y, column(s, which, HALF + 1) - bevel);
  Real nz = over * (round * z) + beyond(z, column(s, which, HALF + 2) - bevel);
  return unit(vector(cosine * nx - sine * ny, cosine * ny + sine * nx, nz));
}

struct Surface {
  Vector point, normal, colour;
  Mask solid, metal, missed;
};

FN Surface meet(Scene scene, Vector origin, Vector ray) {
  Real distance, behind;
  Number which, side;
  Surface r;
  nearest(scene, origin, ray, &distance, &which);
  surroundings(scene, origin, ray, &behind, &side);
  r.solid = (which >= 0) & (distance < behind);
  r.missed = (r.solid == none()) & (behind >= NEVER);
  distance = pick(r.solid, distance, behind);
  r.point = plus(origin, times(distance, ray));
  Real zero = fill(0.0f), one = fill(1.0f);
  r.normal = vector(pick(side == 1, -sign(ray.x), zero), pick(side == 2, -sign(ray.y), zero),
                    pick(side == 0, one, zero));
  r.colour = choose(side == 0, fixed(scene.view + FLOOR), fixed(scene.view + WALL));
  r.metal = none();
  if (some(r.solid)) {
    Number safe = pick_number(r.solid, which, number(0));
    const float* s = scene.solids;
    r.normal = choose(r.solid, normal_of(scene, r.point, safe), r.normal);
    Vector colour = vector(column(s, safe, COLOUR), column(s, safe, COLOUR + 1),
                           column(s, safe, COLOUR + 2));
    r.colour = choose(r.solid, colour, r.colour);
    r.metal = r.solid & (column(s, safe, METAL) > 0.0f);
  }
  return r;
}

FN Real lobe(Vector to, Vector eye, Vector normal, float gloss) {
  Real cosine = positive(dot(unit(plus(unit(to), eye)), normal));
  Real below = cosine * cosine * (gloss - 1.0f) + 1.0f;
  return gloss / (4.0f * below * below);
}

// Light that arrives at a surface, all of it and what a rough mirror sends to the eye.
FN void lit(Scene scene, Surface at, Vector eye, Real u, Real v, bool shiny, Vector* matt,
            Vector* shine) {
  Vector start = plus(at.point, times(fill(NUDGE), at.normal));
  *shine = times(fill(0.0f), *matt);
  for (int lamp = 0; lamp < 4; lamp++) {
    const float* row = scene.look + lamp * LAMP;
    bool sun = lamp == 3;
    Vector to = fixed(scene.look + SUN);
    Real amount = positive(dot(to, at.normal));
    if (!sun) {
      Vector place = plus(fixed(scene.view + LAMPS + 3 * lamp), times(u, fixed(row + 3)));
      to = minus(plus(place, times(v, fixed(row + 6))), start);
      Real square = dot(to, to);
      Real facing = positive(dot(to, at.normal)) / (square * square);
      amount = positive(-dot(to, fixed(row))) * facing;
    }
    Mask wanted = amount > 0.0f;
    if (!some(wanted)) continue;
    Mask dark = blocked(scene, start, to, sun ? NEVER : 1.0f, wanted);
    amount = pick(dark, fill(0.0f), amount);
    Vector energy = fixed(sun ? scene.look + SUN + 3 : row + 9);
    *matt = plus(*matt, times(amount, energy));
    if (shiny) {
      amount = amount * lobe(to, eye, at.normal, scene.look[GLOSS]);
      *shine = plus(*shine, times(amount, energy));
    }
  }
}

FN Vector radiance(Scene scene, Surface at, Vector ray, Vector matt) {
  const float* look = scene.look;
  Real dull = pick(at.metal, fill(look[METAL_SECOND]), fill(look[RUBBER]));
  dull = pick(at.solid, dull, fill(1.0f));
  Real far = positive(at.point.x * BEHIND_X + at.point.y * BEHIND_Y);
  far = smaller(far, fill(NEVER));
  Real glow = look[BACKDROP] * far * far / (far * far + 64.0f) / (1.0f + far / 40.0f);
  if (scene.view[ROOM] < FAR) glow = fill(0.0f);
  glow = pick(at.solid, fill(0.0f), glow);
  Vector colour = vector(at.colour.x * dull * matt.x + glow, at.colour.y * dull * matt.y + glow,
                         at.colour.z * dull * matt.z + glow);
  if (some(at.missed)) {
    Vector to = unit(ray);
    Real back = positive(to.x * BEHIND_X + to.y * BEHIND_Y);
    Real sky = look[SKY_BEHIND] * back;
    colour = choose(at.missed, vector(sky, sky, sky), colour);
  }
  return colour;
}

FN Vector resting_light(Scene scene, Surface at) {
  Real below = pick(at.solid, scene.look[BOUNCE] * (1.0f - at.normal.z) / 2.0f, fill(0.0f));
  Real rest = scene.look[AMBIENT] + below;
  return vector(rest, rest, rest);
}

FN Vector mirrored(Scene scene, Surface at, Vector ray, Real u, Real v) {
  ray = unit(ray);
  Vector out = minus(ray, times(2.0f * dot(ray, at.normal), at.normal));
  Vector side = unit(vector(out.y, -out.x, fill(0.0f)));
  Vector rise = vector(side.y * out.z - side.z * out.y, -side.x * out.z,
                       side.x * out.y - side.y * out.x);
  Real spread = fill(scene.look[SPREAD]);
  out = unit(plus(plus(out, times(spread * u, side)), times(spread * v, rise)));
  Vector start = plus(at.point, times(fill(NUDGE), at.normal));
  Surface there = meet(scene, start, out);
  Vector matt = resting_light(scene, there), shine;
  lit(scene, there, out, u, v, false, &matt, &shine);
  return radiance(scene, there, out, matt);
}

FN Vector camera_ray(const float* view, Real column, Real row, int side) {
  Real u = (2.0f * column + 1.0f) / (float)side - 1.0f;
  Real v = -((2.0f * row + 1.0f) / (float)side - 1.0f);
  Vector along = plus(fixed(view + FORWARD), times(u, fixed(view + RIGHT)));
  return plus(along, times(v, fixed(view + UP)));
}

FN Vector seen(Scene scene, Real column, Real row, Real u, Real v, int side) {
  Vector ray = camera_ray(scene.view, column, row, side);
  Surface at = meet(scene, fixed(scene.view + EYE), ray);
  Vector eye = unit(vector(-ray.x, -ray.y, -ray.z));
  bool shiny = some(at.metal);
  Vector matt = resting_light(scene, at), shine;
  lit(scene, at, eye, u, v, shiny, &matt, &shine);
  Vector colour = radiance(scene, at, ray, matt);
  if (!shiny) return colour;
  const float* look = scene.look;
  Vector mirror = mirrored(scene, at, ray, u, v);
  Vector all = plus(times(fill(look[METAL_DULL]), matt), times(fill(look[METAL_SHINE]), shine));
  all = plus(all, times(fill(look[METAL_MIRROR]), mirror));
  Vector metal = vector(at.colour.x * all.x, at.colour.y * all.y, at.colour.z * all.z);
  return choose(at.metal, metal, colour);
}

FN void first_solid(Scene scene, Real column, Real row, int side, Number* which, Real* depth) {
  Vector ray = camera_ray(scene.view, column, row, side), eye = fixed(scene.view + EYE);
  Real distance, behind;
  Number around;
  nearest(scene, eye, ray, &distance, which);
  surroundings(scene, eye, ray, &behind, &around);
  *which = pick_number((*which < 0) | (behind < distance), number(-1), *which);
  *depth = smaller(distance, behind);
}
